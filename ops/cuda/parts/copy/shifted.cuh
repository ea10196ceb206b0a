// 16 bytes at an address that is no multiple of 16, from the two aligned 16 bytes that hold them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tiled {

// The 16 bytes that begin `count` elements, of so many bytes each, after low does: fewer than 16
// bytes. high follows low.
template <int BYTES>
__device__ __forceinline__ uint4 shifted(uint4 low, uint4 high, int count) {
  uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int i = 0; i < 6; ++i) w[i] = count & 8 / BYTES ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) w[i] = count & 4 / BYTES ? w[i + 1] : w[i];
  const uint32_t bits = count % (4 / BYTES) * 8 * BYTES;
  return make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
                    __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits));
}

}  // namespace tiled
