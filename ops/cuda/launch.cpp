#include "cuda/launch.h"

#include "cuda/kernels/kernels.h"

namespace tiled {
namespace {

const void* kernel_of(const Problem& problem, const Plan& plan) {
  switch (plan.algo) {
    case Algo::Naive: return naive_kernel(problem, plan);
    case Algo::SharedTile8:
    case Algo::SharedTile16:
    case Algo::SharedTile32: return shared_tile_kernel(problem, plan);
    case Algo::RegisterTile: return register_tile_kernel(problem, plan);
    case Algo::Blocked: break;  // a CPU rung: the planner never chooses it
  }
  return nullptr;
}

}  // namespace

cudaError_t launch(const Problem& problem, const Plan& plan, cudaStream_t stream) {
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
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &result->blocks_per_sm, kernel, plan.threads_x * plan.threads_y, /*dynamicSMemSize=*/0);
}

}  // namespace tiled
