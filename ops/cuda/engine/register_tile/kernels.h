// The kernels of fp32 by cp.async.
#pragma once

#include "cuda/engine/register_tile/way.h"
#include "cuda/parts/launch/launch.h"
#include "cuda/parts/schedule/launch_segments.h"
#include "cuda/parts/schedule/launch_stream_k.h"

namespace tiled {

// The kernel of a way that is async.
Kernel<ProblemAndTotals> register_tile_async_kernel(const RegisterTileWay& way, bool of_groups);
// The kernel of a way by stream-K.
Kernel<StreamKArguments> register_tile_stream_k_kernel(const RegisterTileWay& way);

}  // namespace tiled
