// The launch of rung mma_tile: the lesson's kernel, and those of fp64.
#include "cuda/engine/mma_tile/kernels.h"
#include "cuda/engine/mma_tile/way.h"
#include "cuda/lessons/4_mma_tile/kernel.h"
#include "cuda/parts/schedule/launch_segments.h"

namespace tiled {
namespace {

cudaError_t launch(const Call& call, const Step& step) {
  if (call.plan.way.is<MmaWay>())
    return launch_kernel(mma_tile_kernel(call.problem, call.plan.way.as<MmaWay>().tile), step,
                         call.stream, call.problem);
  const Fp64Way way = call.plan.way.as<Fp64Way>();
  // The alignment says to the kernel what the plan's access is.
  Problem read = call.problem;
  read.a.alignment = way.access.a == Access::Elements ? 8 : 16;
  read.b.alignment = way.access.b == Access::Elements ? 8 : 16;
  if (way.blocks > 0)
    return launch_stream_k(mma_tile_fp64_stream_k_kernel(call.problem, way.tile), read, call, step);
  return launch_early(mma_tile_fp64_kernel(call.problem, way.tile), step, call.stream,
                      with_totals(call, read, way.split_k));
}

const void* kernel(const Call& call) {
  if (call.plan.way.is<MmaWay>())
    return address_of(mma_tile_kernel(call.problem, call.plan.way.as<MmaWay>().tile));
  const Fp64Way way = call.plan.way.as<Fp64Way>();
  return way.blocks > 0 ? address_of(mma_tile_fp64_stream_k_kernel(call.problem, way.tile))
                        : address_of(mma_tile_fp64_kernel(call.problem, way.tile));
}

}  // namespace

extern const RungLaunch MmaTileLaunch = {&launch, &kernel};

}  // namespace tiled
