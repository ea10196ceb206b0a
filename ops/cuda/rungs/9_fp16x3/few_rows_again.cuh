// What few_rows.cu computes again, in fp64 and rounded once: the bits of guard.cu, by the block that
// has the sums, so that no other kernel need look for them.
#pragma once

#include "cuda/rungs/9_fp16x3/few_rows_extent.cuh"

namespace tiled {

// Sums of all marked elements, into `sums`. Every CHUNK of K are a chain of fused multiply-adds from
// +0, a thread's; the chains are added in ascending order. `chains` has room for so many chunks of
// ROWS. A function of its own, since it is hardly ever called, and would cost registers where it is
// not.
__device__ __noinline__ void compute_again(const FewRowsArguments& args, const Head& head,
                                           float* sums, double* chains, int room, int64_t entry,
                                           int64_t w0) {
  const int chunks = static_cast<int>((args.k + CHUNK - 1) / CHUNK), x_rows = args.x_rows;
  const float* const w = args.w + entry * args.w_batch + w0 * args.w_row;
  for (int of_x = 0; of_x < x_rows; ++of_x) {
    const uint32_t marks = head.marks[of_x];
    if (marks == 0) continue;
    const float* const x = args.x_elements + entry * args.x_entry + of_x * args.x_row;
    double total = 0;  // of row threadIdx.x of W
    for (int first = 0; first < chunks; first += room) {
      const int count = min(room, chunks - first);
      for (int i = threadIdx.x; i < count * ROWS; i += blockDim.x) {
        if (!(marks >> i % ROWS & 1)) continue;
        const int64_t begin = int64_t{first + i / ROWS} * CHUNK;
        const int64_t end = min(begin + CHUNK, args.k);
        double chain = 0;
#pragma unroll 8
        for (int64_t k = begin; k < end; ++k)
          chain = __fma_rn(x[k * args.x_k], w[i % ROWS * args.w_row + k * args.w_k], chain);
        chains[i] = chain;
      }
      __syncthreads();
      if (threadIdx.x < ROWS)
        for (int i = 0; i < count; ++i) total = __dadd_rn(total, chains[i * ROWS + threadIdx.x]);
      __syncthreads();
    }
    if (threadIdx.x < ROWS && marks >> threadIdx.x & 1)
      sums[of_x * 2 * ROWS + threadIdx.x] =
          __fadd_rn(__double2float_rn(total), 0);  // zeros are positive
    if (threadIdx.x == 0) atomicAdd(args.guard.recomputed, __popc(marks));
  }
}

}  // namespace tiled
