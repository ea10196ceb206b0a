// The kernels of rung async_mma.
#pragma once

#include "cuda/parts/launch.h"
#include "cuda/rungs/10_async_mma/way.h"

namespace tiled {

// By tile. nt: A and B are contiguous along k; nn: B along n; tn: A along m and B along n. What is
// contiguous along m and along k is, exchanged, one that is contiguous along k and along n. Kernels
// for products with groups are there of tiles of any alignment, else none.
Kernel<AsyncMmaArguments> async_mma_bf16_nt(int tile, bool of_groups);
Kernel<AsyncMmaArguments> async_mma_bf16_nn(int tile, bool of_groups);
Kernel<AsyncMmaArguments> async_mma_bf16_tn(int tile, bool of_groups);
Kernel<AsyncMmaArguments> async_mma_fp16_nt(int tile, bool of_groups);
Kernel<AsyncMmaArguments> async_mma_fp16_nn(int tile, bool of_groups);
Kernel<AsyncMmaArguments> async_mma_fp16_tn(int tile, bool of_groups);
// For these dtypes both operands are contiguous along k in shared memory.
Kernel<AsyncMmaArguments> async_mma_tf32(int tile, bool of_groups);
Kernel<AsyncMmaArguments> async_mma_int8(int tile, bool of_groups);
Kernel<AsyncMmaArguments> async_mma_signed_int8(int tile, bool of_groups);
// The kernels of compute capability 7.5, with HeldTiles.
Kernel<AsyncMmaArguments> async_mma_held_fp16(bool a_along_m, bool b_along_n, int tile,
                                              bool of_groups);

}  // namespace tiled
