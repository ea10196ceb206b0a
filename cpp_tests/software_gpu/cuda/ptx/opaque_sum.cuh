// What a compiler may keep changes no value.
#pragma once

namespace tiled::ptx {

inline void opaque_sum(float&) {}

}  // namespace tiled::ptx
