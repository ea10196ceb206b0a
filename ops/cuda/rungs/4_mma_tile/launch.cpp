// The launch of rung mma_tile.
#include "cuda/parts/launch_rung.h"
#include "cuda/parts/launch_segments.h"
#include "cuda/rungs/4_mma_tile/kernels.h"
#include "cuda/rungs/4_mma_tile/way.h"

namespace tiled {
namespace {

cudaError_t launch(const Problem& problem, const Plan& plan, void* workspace, cudaStream_t stream) {
  if (!plan.way.is<Fp64Way>())
    return launch_kernel(mma_tile_kernel(problem), plan.main_step(), stream, problem);
  const Fp64Way way = plan.way.as<Fp64Way>();
  // The alignment says to the kernel what the plan's access is.
  Problem read = problem;
  read.a.alignment = way.access.a == Access::Elements ? 8 : 16;
  read.b.alignment = way.access.b == Access::Elements ? 8 : 16;
  if (way.blocks > 0)
    return launch_wrapped(mma_tile_fp64_wrapped_kernel(problem, way.tile), read, plan, way.blocks,
                          workspace, 0, stream);
  return launch_segments(read, plan, way.shares_segments, workspace, stream,
                         [&](const ProblemAndTotals& args) {
                           return launch_early(mma_tile_fp64_kernel(problem, way.tile),
                                               plan.main_step(), stream, args);
                         });
}

const void* kernel(const Problem& problem, const Plan& plan) {
  if (!plan.way.is<Fp64Way>()) return address_of(mma_tile_kernel(problem));
  const Fp64Way way = plan.way.as<Fp64Way>();
  if (way.blocks > 0) return address_of(mma_tile_fp64_wrapped_kernel(problem, way.tile));
  return address_of(mma_tile_fp64_kernel(problem, way.tile));
}

}  // namespace

extern const RungLaunch MmaTileLaunch = {&launch, &kernel};

}  // namespace tiled
