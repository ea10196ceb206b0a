// The kernels of rung mma_tile.
#pragma once

#include "cuda/parts/launch.h"
#include "cuda/parts/launch_segments.h"
#include "cuda/parts/wrapped.h"

namespace tiled {

Kernel<Problem> mma_tile_kernel(const Problem& problem, int tile);  // of MmaTiles
// Operands whose alignment is 16 are read by vectors. `tile`: of Fp64Tiles.
Kernel<ProblemAndTotals> mma_tile_fp64_kernel(const Problem& problem, int tile);
// `tile`: of Fp64WrappedTiles.
Kernel<WrappedArguments> mma_tile_fp64_wrapped_kernel(const Problem& problem, int tile);

}  // namespace tiled
