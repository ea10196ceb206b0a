// Stands for ptx/cluster.cuh: a kernel starts when the one before has ended, and waits for nothing.
#pragma once

#include "software_gpu/block.h"

namespace tiled::ptx {

inline void griddepcontrol_launch_dependents() {}
inline void griddepcontrol_wait() {}
inline uint32_t cluster_ctarank() { return 0; }
inline bool elect_sync() { return threadIdx.x % 32 == 0; }

}  // namespace tiled::ptx
