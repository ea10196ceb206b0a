// The kernels of rung register_tile.
#pragma once

#include "cuda/parts/launch.h"
#include "cuda/parts/launch_segments.h"
#include "cuda/parts/wrapped.h"
#include "cuda/rungs/3_register_tile/way.h"

namespace tiled {

Kernel<ProblemAndTotals> register_tile_kernel(const Problem& problem, const RegisterTileWay& way);
// The kernel of a way that is async.
Kernel<ProblemAndTotals> register_tile_async_kernel(const RegisterTileWay& way, bool of_groups);

// The kernel of a way by stream-K.
Kernel<WrappedArguments> register_tile_wrapped_kernel(const RegisterTileWay& way);

}  // namespace tiled
