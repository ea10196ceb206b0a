// A warpgroup's accumulators to C, every thread its own elements: any strides, any alignment. What
// rungs 5 and 6 end with; rung 7 has a faster way.
#pragma once

#include "cuda/parts/finish_accumulators.cuh"

namespace tiled {

// d: wgmma's registers (ptx/wgmma.cuh) of the 64 rows from `row` and the columns from `column` on;
// the epilogue is applied to them in place.
template <typename T, int COUNT>
__device__ __forceinline__ void store_accumulators(const Problem& problem, float (&d)[COUNT],
                                                   int64_t entry, int64_t row, int64_t column) {
  using Element = typename ElementOf<T>::Type;
  if (!leaves_sums(problem.epilogue))
    finish_accumulators<T>(
        problem.epilogue, reinterpret_cast<float (&)[1][COUNT]>(d), static_cast<int>(row),
        static_cast<int>(column),
        {static_cast<int>(problem.m), static_cast<int>(problem.n), static_cast<int>(entry)});
  const int thread = threadIdx.x % 128;
  row += thread / 32 * 16 + thread % 32 / 4;
  column += thread % 4 * 2;
  const bool as_accumulator = stores_accumulator(problem);
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    const int64_t r = row + i % 4 / 2 * 8, c = column + i / 4 * 8 + i % 2;
    if (r < problem.m && c < problem.n)
      store<Element>(
          problem.c.data,
          entry * problem.c.batch_stride + r * problem.c.row_stride + c * problem.c.col_stride,
          d[i], as_accumulator);
  }
}

}  // namespace tiled
