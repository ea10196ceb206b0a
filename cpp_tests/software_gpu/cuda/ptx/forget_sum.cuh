// What a compiler may keep changes no value.
#pragma once

namespace tiled::ptx {

inline void forget_sum(float&) {}

}  // namespace tiled::ptx
