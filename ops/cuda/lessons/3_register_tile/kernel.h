// The kernel of lesson 3.
#pragma once

#include "cuda/parts/launch/launch.h"
#include "cuda/parts/schedule/launch_segments.h"
#include "cuda/plan/access.h"

namespace tiled {

// `tile`: of the list for the problem's accumulators (tiles.h). `access`: both operands by vectors,
// or neither.
Kernel<ProblemAndTotals> register_tile_kernel(const Problem& problem, int tile, Accesses access);

}  // namespace tiled
