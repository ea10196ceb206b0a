// How a warp copies scales to shared memory (scaled_operands.cuh).
#pragma once

#include "core/scales.h"
#include "cuda/ptx/cp_async.cuh"

namespace tiled {

// The scales of ROWS rows of an operand from `first` on, block after block of K, by a warp: lane
// l copies those of rows l, l + 32, ..., where they are below `rows`. Nothing but additions is
// left for a block: one warp has to keep pace with the tensor cores.
template <int ROWS>
class RowsToCopy {
 public:
  __device__ __forceinline__ RowsToCopy(const OperandScales& scales, int first, int rows, int entry,
                                        int64_t block)
      : block_stride_(scales.block_stride) {
    const int lane = threadIdx.x % 32;
    from_ = scales.data + entry * scales.batch_stride + scale_offset(scales, first + lane, block);
    left_ = min(ROWS, rows - first) - lane;
    // Where 128 rows have a scale in common, `first` is a multiple of 32 if there are so many.
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      further_[i] = scale_offset(scales, first + 32 * i, 0) - scale_offset(scales, first, 0);
  }
  // To `at`, this lane's, and 128 bytes further each.
  __device__ __forceinline__ void copy_block(uint32_t at) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      if (32 * i < left_) ptx::cp_async_4(at + 128 * i, from_ + further_[i]);
    from_ += block_stride_;
  }

 private:
  static constexpr int COUNT = (ROWS + 31) / 32;
  int64_t block_stride_, further_[COUNT];
  const float* from_;  // of the next block, the scale of this lane's first row
  int left_;           // rows from that one on
};

}  // namespace tiled
