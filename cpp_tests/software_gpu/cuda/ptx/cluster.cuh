// Of ptx/cluster.cuh: a kernel starts when the one before has ended, and has nothing to wait for.
#pragma once

namespace tiled::ptx {

inline void griddepcontrol_launch_dependents() {}
inline void griddepcontrol_wait() {}

}  // namespace tiled::ptx
