// What the kernels of repack.cu and transpose.cu share: what is copied, and a block's part of
// it.
#pragma once

#include <cstdint>

#include "cuda/parts/launch.h"
#include "cuda/plan/copies.h"

namespace tiled {

struct Matrix {
  const void* from;
  void* to;
  int64_t rows, columns;                      // of the copy; elements are contiguous along a row
  int64_t from_row, from_column, from_batch;  // strides, elements
  int64_t to_row, to_batch;                   // strides, elements
  int64_t batch;
  int across;                  // threads side by side along a row, a power of two
  int32_t blocks_x, blocks_y;  // along a row; down the rows, each block striding by all of these
  int32_t blocks_z;            // through the batch, likewise
};

struct RepackArguments {
  Matrix first, second;
  uint32_t first_blocks;  // of the grid; the others are the second's
};

// A block's matrix and its place there.
struct Task {
  const Matrix& m;
  int64_t x, y, z;
};
__device__ __forceinline__ Task task_of(const RepackArguments& args) {
  const bool is_second = blockIdx.x >= args.first_blocks;
  const Matrix& m = is_second ? args.second : args.first;
  const uint32_t block = blockIdx.x - (is_second ? args.first_blocks : 0);
  const uint32_t row = block / m.blocks_x;
  return {m, block % m.blocks_x, row % m.blocks_y, row / m.blocks_y};
}

Kernel<RepackArguments> transpose_kernel();  // transpose.cu

}  // namespace tiled
