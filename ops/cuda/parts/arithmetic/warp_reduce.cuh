// One number of a warp's lanes, in all of them. Before compute capability 8.0 the instructions do
// not exist, and exchanges do the same.
#pragma once

#include <cstdint>

namespace tiled {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
__device__ __forceinline__ uint32_t warp_max(uint32_t x) { return __reduce_max_sync(~0u, x); }
__device__ __forceinline__ uint32_t warp_sum(uint32_t x) { return __reduce_add_sync(~0u, x); }
__device__ __forceinline__ uint32_t warp_or(uint32_t x) { return __reduce_or_sync(~0u, x); }
#else
template <typename Of>
__device__ __forceinline__ uint32_t over_warp(uint32_t x, Of of) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) x = of(x, __shfl_xor_sync(~0u, x, mask));
  return x;
}
__device__ __forceinline__ uint32_t warp_max(uint32_t x) {
  return over_warp(x, [](uint32_t a, uint32_t b) { return max(a, b); });
}
__device__ __forceinline__ uint32_t warp_sum(uint32_t x) {
  return over_warp(x, [](uint32_t a, uint32_t b) { return a + b; });
}
__device__ __forceinline__ uint32_t warp_or(uint32_t x) {
  return over_warp(x, [](uint32_t a, uint32_t b) { return a | b; });
}
#endif

}  // namespace tiled
