// The kernel of lesson 4.
#pragma once

#include "cuda/parts/launch/launch.h"

namespace tiled {

Kernel<Problem> mma_tile_kernel(const Problem& problem, int tile);  // of MmaTiles

}  // namespace tiled
