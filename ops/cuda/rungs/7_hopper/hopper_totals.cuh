// Totals of segments: where K has several, a consumer keeps its tile's total in the workspace, in
// register order.
#pragma once

#include <cuda_runtime_api.h>

namespace tiled {

// total = total + d, through this thread's place in the workspace; the first of a chain of
// segments writes it, the last leaves the total in d. Loads go out in batches: one by one, each
// would wait for the L2 cache on its own.
template <int STRIPS, int REGISTERS>
__device__ __forceinline__ void add_to_total(float (&d)[STRIPS][REGISTERS], float4* total,
                                             bool is_first, bool is_last) {
  constexpr int BATCH = STRIPS * REGISTERS >= 192 ? 4 : 8;
  const auto at = [&](int i) -> float& { return d[i / REGISTERS][i % REGISTERS]; };
#pragma unroll
  for (int first = 0; first < STRIPS * REGISTERS / 4; first += BATCH) {
    float4 sum[BATCH];
#pragma unroll
    for (int i = 0; i < BATCH; ++i)
      sum[i] = is_first || first + i >= STRIPS * REGISTERS / 4 ? make_float4(0, 0, 0, 0)
                                                               : __ldcg(total + (first + i) * 128);
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      if (first + i >= STRIPS * REGISTERS / 4) continue;
      const int j = 4 * (first + i);
      at(j) = sum[i].x + at(j), at(j + 1) = sum[i].y + at(j + 1);
      at(j + 2) = sum[i].z + at(j + 2), at(j + 3) = sum[i].w + at(j + 3);
      if (!is_last)
        __stcg(total + (first + i) * 128, make_float4(at(j), at(j + 1), at(j + 2), at(j + 3)));
    }
  }
}

// Segment `piece` of so many, in turn. One alone has no code between its products and its store but
// 0 + d, which makes -0 to 0.
template <int STRIPS, int REGISTERS>
__device__ __forceinline__ void total_with(float (&d)[STRIPS][REGISTERS], float4* total, int piece,
                                           int pieces) {
  if (pieces != 1) return add_to_total(d, total, piece == 0, piece == pieces - 1);
#pragma unroll
  for (int i = 0; i < STRIPS * REGISTERS; ++i) d[i / REGISTERS][i % REGISTERS] += 0;
}

}  // namespace tiled
