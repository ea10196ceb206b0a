// No instruction: the compiler is told that registers may have changed here.
#pragma once

#include <cstdint>

namespace tiled::ptx {

// What is computed from these values before is not kept for after, where it is computed anew; and
// they themselves are kept as they are, not computed again from what they came from.
__device__ __forceinline__ void forget(uint32_t& x) { asm volatile("" : "+r"(x)); }
__device__ __forceinline__ void forget(uint32_t& x, uint32_t& y) {
  asm volatile("" : "+r"(x), "+r"(y));
}
__device__ __forceinline__ void forget(int& x, int& y) { asm volatile("" : "+r"(x), "+r"(y)); }
__device__ __forceinline__ void forget(int& x, int& y, int& z) {
  asm volatile("" : "+r"(x), "+r"(y), "+r"(z));
}

}  // namespace tiled::ptx
