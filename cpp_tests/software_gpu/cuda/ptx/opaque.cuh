// A value that a compiler may keep is the same.
#pragma once

namespace tiled::ptx {

template <typename... T>
inline void opaque(T&...) {}

}  // namespace tiled::ptx
