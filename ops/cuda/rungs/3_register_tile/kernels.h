// The kernels of rung register_tile.
#pragma once

#include "cuda/parts/launch.h"
#include "cuda/rungs/3_register_tile/way.h"

namespace tiled {

Kernel<Problem> register_tile_kernel(const Problem& problem, const RegisterTileWay& way);
Kernel<Problem> register_tile_async_kernel(const RegisterTileWay& way);  // of ways that are async

}  // namespace tiled
