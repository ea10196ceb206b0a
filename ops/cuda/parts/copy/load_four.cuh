// Four neighbours in memory, for kernels that turn fp32 operands.
#pragma once

#include <cstdint>

namespace tiled {

// From `at` on, of which `left` exist, zeros for the others. `vectors`: `at` is a multiple of 16
// bytes.
__device__ __forceinline__ float4 load_four(const float* at, int64_t left, bool vectors) {
  if (vectors && left >= 4) return *reinterpret_cast<const float4*>(at);
  return make_float4(left > 0 ? at[0] : 0, left > 1 ? at[1] : 0, left > 2 ? at[2] : 0,
                     left > 3 ? at[3] : 0);
}

}  // namespace tiled
