// What a compiler may keep changes no value.
#pragma once

namespace tiled::ptx {

template <typename... T>
inline void opaque(T&...) {}

}  // namespace tiled::ptx
