#include "cuda/launch.h"

#include <algorithm>

#include "cuda/kernels/kernels.h"
#include "cuda/launch_tma.h"
#include "cuda/tiles.h"

namespace tiled {
namespace {

const void* kernel_of(const Problem& problem, const Plan& plan) {
  switch (plan.algo) {
    case Algo::Naive: return naive_kernel(problem, plan);
    case Algo::SharedTile8:
    case Algo::SharedTile16:
    case Algo::SharedTile32: return shared_tile_kernel(problem, plan);
    case Algo::RegisterTile: return register_tile_kernel(problem, plan);
    case Algo::MmaTile: return mma_tile_kernel(problem);
    case Algo::TmaWgmma:
    case Algo::WarpSpecialized:
    case Algo::Hopper: return tma_kernel(problem, plan);
    case Algo::Blocked: break;  // a CPU rung: the planner never chooses it
  }
  return nullptr;
}

bool uses_tma(Algo algo) {
  return algo == Algo::TmaWgmma || algo == Algo::WarpSpecialized || algo == Algo::Hopper;
}

// Bytes of shared memory beyond what the kernel declares itself.
int dynamic_shared(const Plan& plan) {
  return uses_tma(plan.algo) ? static_cast<int>(plan.shared_bytes) : 0;
}

cudaError_t launch_mma_tile(const Problem& problem, cudaStream_t stream) {
  const int64_t tiles =
      blocks_over(problem.m, MmaTile::ROWS) * blocks_over(problem.n, MmaTile::ROWS);
  const dim3 grid(static_cast<unsigned>(tiles),
                  static_cast<unsigned>(std::min(problem.batch, MAX_GRID_Y)));
  void* arguments[] = {const_cast<Problem*>(&problem)};
  return cudaLaunchKernel(mma_tile_kernel(problem), grid, dim3(MmaTile::THREADS), arguments,
                          /*sharedMem=*/0, stream);
}

}  // namespace

cudaError_t launch(const Problem& problem, const Plan& plan, void* workspace, cudaStream_t stream) {
  // Nothing to load: tensor maps of nothing do not exist, and any rung's zeros are the same.
  if (problem.k == 0 && uses_tma(plan.algo)) return launch_mma_tile(problem, stream);
  if (plan.algo == Algo::Hopper) return launch_hopper(problem, plan.hopper, workspace, stream);
  if (uses_tma(plan.algo)) return launch_wgmma(problem, plan, stream);
  void* arguments[] = {const_cast<Problem*>(&problem)};
  return cudaLaunchKernel(kernel_of(problem, plan), dim3(plan.grid_x, plan.grid_y),
                          dim3(plan.threads_x, plan.threads_y), arguments, /*sharedMem=*/0, stream);
}

cudaError_t attributes(const Problem& problem, const Plan& plan, LaunchAttributes* result) {
  const void* kernel = kernel_of(problem, plan);
  cudaFuncAttributes found;
  if (const cudaError_t error = cudaFuncGetAttributes(&found, kernel); error != cudaSuccess)
    return error;
  result->registers = found.numRegs;
  result->shared_bytes = static_cast<int64_t>(found.sharedSizeBytes);
  result->local_bytes = static_cast<int64_t>(found.localSizeBytes);
  const int shared = dynamic_shared(plan);
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  if (error != cudaSuccess) return error;
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&result->blocks_per_sm, kernel,
                                                       plan.threads_x * plan.threads_y, shared);
}

}  // namespace tiled
