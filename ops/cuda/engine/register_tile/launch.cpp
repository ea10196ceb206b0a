// The launch of rung register_tile: the lesson's kernel, and in fp32 those of cp.async.
#include "cuda/engine/register_tile/kernels.h"
#include "cuda/lessons/3_register_tile/kernel.h"
#include "cuda/parts/schedule/launch_segments.h"

namespace tiled {
namespace {

Kernel<ProblemAndTotals> kernel_of(const Problem& problem, const RegisterTileWay& way) {
  return way.async ? register_tile_async_kernel(way, is_grouped(problem))
                   : register_tile_kernel(problem, way.tile, way.access);
}

cudaError_t launch(const Call& call, const Step& step) {
  const RegisterTileWay way = call.plan.way.as<RegisterTileWay>();
  if (way.blocks > 0)
    return launch_stream_k(register_tile_stream_k_kernel(way), call.read, call, step);
  return launch_kernel(kernel_of(call.problem, way), step, call.stream,
                       with_totals(call, call.read, way.split_k));
}

const void* kernel(const Call& call) {
  const RegisterTileWay way = call.plan.way.as<RegisterTileWay>();
  return way.blocks > 0 ? address_of(register_tile_stream_k_kernel(way))
                        : address_of(kernel_of(call.problem, way));
}

}  // namespace

extern const RungLaunch RegisterTileLaunch = {&launch, &kernel};

}  // namespace tiled
