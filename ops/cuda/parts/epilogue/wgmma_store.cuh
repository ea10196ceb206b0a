// A warpgroup's accumulators to C, every thread its own elements: any strides, any alignment. What
// lessons 5 and 6 end with; hopper has a faster way.
#pragma once

#include "cuda/parts/epilogue/finish_accumulators.cuh"

namespace tiled {

// d: wgmma's registers (ptx/wgmma.cuh) of the 64 rows from `row` and the columns from `column` on;
// the epilogue is applied to them in place.
template <typename T, int COUNT>
__device__ __forceinline__ void store_accumulators(const Problem& problem, float (&d)[COUNT],
                                                   int64_t entry, int64_t row, int64_t column) {
  using Element = typename ElementOf<T>::Type;
  const Epilogue& e = problem.epilogue;
  const bool finishes = !leaves_sums(e),
             keeps_pre_activation = finishes && e.pre_activation.data != nullptr;
  const int thread = threadIdx.x % 128;
  const int64_t first_row = row + thread / 32 * 16 + thread % 32 / 4;
  const int64_t first_column = column + thread % 4 * 2;
  const bool as_accumulator = stores_accumulator(problem);
  const auto store_to = [&](void* data, const auto& matrix) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      const int64_t r = first_row + i % 4 / 2 * 8, c = first_column + i / 4 * 8 + i % 2;
      if (r < problem.m && c < problem.n)
        store<Element>(data,
                       entry * matrix.batch_stride + r * matrix.row_stride + c * matrix.col_stride,
                       d[i], as_accumulator);
    }
  };
  // C; before it the pre-activations, where they are kept.
  const int first = keeps_pre_activation ? 0 : 1;
#pragma unroll 1
  for (int output = first; output < 2; ++output) {
    if (finishes)
      finish_accumulators<Element>(
          e, {output == first, output == 1}, reinterpret_cast<float (&)[1][COUNT]>(d),
          static_cast<int>(row), static_cast<int>(column),
          {static_cast<int>(problem.m), static_cast<int>(problem.n), static_cast<int>(entry)});
    if (output == 0)
      store_to(e.pre_activation.data, e.pre_activation);
    else
      store_to(problem.c.data, problem.c);
  }
}

}  // namespace tiled
