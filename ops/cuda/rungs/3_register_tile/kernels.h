// The kernels of rung register_tile.
#pragma once

#include "cuda/parts/launch.h"
#include "cuda/parts/totals.h"
#include "cuda/rungs/3_register_tile/way.h"

namespace tiled {

Kernel<ProblemAndTotals> register_tile_kernel(const Problem& problem, const RegisterTileWay& way);
Kernel<ProblemAndTotals> register_tile_async_kernel(
    const RegisterTileWay& way);  // of ways that are async

}  // namespace tiled
