#include "cuda/launch/launch.h"

#include "cuda/parts/launch_rung.h"
#include "cuda/parts/repack.h"

namespace tiled {

// Each stands in its rung's folder, beside the kernel or in launch.cpp.
extern const RungLaunch NAIVE_LAUNCH, SHARED_TILE_8_LAUNCH, SHARED_TILE_16_LAUNCH,
    SHARED_TILE_32_LAUNCH, REGISTER_TILE_LAUNCH;
#ifdef TILED_MM_HOPPER
extern const RungLaunch MMA_TILE_LAUNCH, TMA_WGMMA_LAUNCH, WARP_SPECIALIZED_LAUNCH, HOPPER_LAUNCH,
    FEW_ROWS_LAUNCH, FP16X3_LAUNCH;
#endif

namespace {

// In a build without Hopper's kernels the planner knows that they are missing.
constexpr const RungLaunch* LAUNCHES[] = {
    &NAIVE_LAUNCH,          &SHARED_TILE_8_LAUNCH, &SHARED_TILE_16_LAUNCH,
    &SHARED_TILE_32_LAUNCH, &REGISTER_TILE_LAUNCH,
#ifdef TILED_MM_HOPPER
    &MMA_TILE_LAUNCH,       &TMA_WGMMA_LAUNCH,     &WARP_SPECIALIZED_LAUNCH,
    &HOPPER_LAUNCH,         &FEW_ROWS_LAUNCH,      &FP16X3_LAUNCH,
#endif
};

const RungLaunch* launch_of(Algo algo) {
  for (const RungLaunch* launch : LAUNCHES)
    if (launch->algo == algo) return launch;
  return nullptr;
}

}  // namespace

cudaError_t launch(const Problem& problem, const Plan& plan, void* workspace, cudaStream_t stream) {
  const RungLaunch* rung = launch_of(plan.algo);
  if (rung == nullptr) return cudaErrorNoKernelImageForDevice;
  if (plan.main_step().work == Work::Sums)  // of no segments
    return launch_sum_segments(problem, sums_layout(problem, 0), nullptr, plan.main_step(), stream);
  return rung->launch(problem, plan, workspace, stream);
}

cudaError_t attributes(const Problem& problem, const Plan& plan, LaunchAttributes* result) {
  const RungLaunch* rung = launch_of(plan.algo);
  if (rung == nullptr) return cudaErrorNoKernelImageForDevice;
  const void* kernel = rung->kernel(problem, plan);
  cudaFuncAttributes found;
  if (const cudaError_t error = cudaFuncGetAttributes(&found, kernel); error != cudaSuccess)
    return error;
  result->registers = found.numRegs;
  result->shared_bytes = static_cast<int64_t>(found.sharedSizeBytes);
  result->local_bytes = static_cast<int64_t>(found.localSizeBytes);
  const Step& step = plan.main_step();
  const int shared = step.dynamic ? static_cast<int>(step.shared_bytes) : 0;
  if (const cudaError_t error = allow_shared(kernel, shared); error != cudaSuccess) return error;
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&result->blocks_per_sm, kernel,
                                                       step.threads_x * step.threads_y, shared);
}

}  // namespace tiled
