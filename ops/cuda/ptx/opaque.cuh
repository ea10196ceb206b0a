// A compiler barrier for registers, which is no instruction.
#pragma once

#include <cstdint>

namespace tiled::ptx {

// The compiler must assume that x has changed: values derived from it are computed again instead of
// being kept in registers, and x itself is kept instead of being computed again.
__device__ __forceinline__ void opaque(uint32_t& x) { asm volatile("" : "+r"(x)); }
__device__ __forceinline__ void opaque(uint32_t& x, uint32_t& y) {
  asm volatile("" : "+r"(x), "+r"(y));
}
__device__ __forceinline__ void opaque(int& x) { asm volatile("" : "+r"(x)); }
__device__ __forceinline__ void opaque(int& x, int& y) { asm volatile("" : "+r"(x), "+r"(y)); }
__device__ __forceinline__ void opaque(int& x, int& y, int& z) {
  asm volatile("" : "+r"(x), "+r"(y), "+r"(z));
}

}  // namespace tiled::ptx
