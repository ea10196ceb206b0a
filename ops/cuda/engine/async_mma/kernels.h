// The kernels of rung async_mma, those of a tile in a file of its own.
#pragma once

#include "cuda/engine/async_mma/tiles.h"
#include "cuda/engine/async_mma/way.h"
#include "cuda/parts/schedule/launch_segments.h"

namespace tiled {

struct AsyncMmaArguments : ProblemAndTotals {
  ReadBy a, b;
};

// Which kernel of a tile. A and B are contiguous along k, or B along n, or A along m and B along n:
// what is contiguous along m and along k is, by swap_ab, one that is contiguous along k and along
// n. Of operands that are not of 16 bits both are contiguous along k in shared memory. The tiles of
// compute capability 7.5 have kernels for fp16 alone.
struct AsyncMmaKernel {
  DType dtype;     // float32 is rounded to tf32
  bool is_signed;  // bytes are, and C holds their sums; else it may hold the sums' low 8 bits
  bool a_along_m, b_along_n;
  bool of_groups;  // there are such kernels of tiles of any alignment alone
};

// Null where none is planned for.
template <typename Tile>
Kernel<AsyncMmaArguments> async_mma_kernel(const AsyncMmaKernel& kernel);

}  // namespace tiled
