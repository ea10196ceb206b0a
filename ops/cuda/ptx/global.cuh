// Global memory by instructions of their own (PTX ISA, "st").
#pragma once

#include <cstdint>

namespace tiled::ptx {

// 16 bytes at a multiple of them, by one instruction: of words that came from shuffles the compiler
// makes four.
__device__ __forceinline__ void store_global_v4(void* to, uint4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}

}  // namespace tiled::ptx
