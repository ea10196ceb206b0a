// The kernels of fp64.
#pragma once

#include "cuda/parts/launch/launch.h"
#include "cuda/parts/schedule/launch_segments.h"
#include "cuda/parts/schedule/launch_stream_k.h"

namespace tiled {

// Operands whose alignment is 16 are read by vectors. `tile`: of Fp64Tiles.
Kernel<ProblemAndTotals> mma_tile_fp64_kernel(const Problem& problem, int tile);
// `tile`: of Fp64StreamKTiles.
Kernel<StreamKArguments> mma_tile_fp64_stream_k_kernel(const Problem& problem, int tile);

}  // namespace tiled
