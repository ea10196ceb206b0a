// 16 bytes at any multiple of two bytes, from the two aligned 16 bytes that hold them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tiled {

// The 16 bytes that begin `elements` (0 to 7) of 16 bits after low does; high follows it.
__device__ __forceinline__ uint4 shifted(uint4 low, uint4 high, int elements) {
  uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int i = 0; i < 6; ++i) w[i] = elements & 4 ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) w[i] = elements & 2 ? w[i + 1] : w[i];
  const uint32_t bits = elements % 2 * 16;
  return make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
                    __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits));
}

}  // namespace tiled
