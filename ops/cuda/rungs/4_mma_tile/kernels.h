// The kernels of rung mma_tile.
#pragma once

#include "cuda/parts/launch.h"
#include "cuda/parts/totals.h"
#include "cuda/plan/candidate.h"

namespace tiled {

Kernel<Problem> mma_tile_kernel(const Problem& problem);  // of 16 bits and tf32
// Operands whose alignment is 16 are read by vectors.
Kernel<ProblemAndTotals> mma_tile_fp64_kernel(const Problem& problem, TileSize tile_size);

}  // namespace tiled
