// The launch of rung mma_tile.
#include "cuda/parts/launch_rung.h"
#include "cuda/rungs/4_mma_tile/kernels.h"
#include "cuda/rungs/4_mma_tile/way.h"

namespace tiled {
namespace {

Kernel<Problem> kernel_of(const Problem& problem, const Plan& plan) {
  return plan.way.is<Fp64Way>() ? mma_tile_fp64_kernel(problem, plan.way.as<Fp64Way>().tile)
                                : mma_tile_kernel(problem);
}

cudaError_t launch(const Problem& problem, const Plan& plan, void*, cudaStream_t stream) {
  if (!plan.way.is<Fp64Way>())
    return launch_kernel(kernel_of(problem, plan), plan.main_step(), stream, problem);
  const Accesses access = plan.way.as<Fp64Way>().access;
  Problem read = problem;  // its alignment says to the kernel what the plan's access is
  read.a.alignment = access.a == Access::Elements ? 8 : 16;
  read.b.alignment = access.b == Access::Elements ? 8 : 16;
  return launch_early(kernel_of(problem, plan), plan.main_step(), stream, read);
}

const void* kernel(const Problem& problem, const Plan& plan) {
  return address_of(kernel_of(problem, plan));
}

}  // namespace

extern const RungLaunch MMA_TILE_LAUNCH = {Algo::MmaTile, &launch, &kernel};

}  // namespace tiled
