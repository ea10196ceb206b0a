#include "cuda/launch/launch.h"

#include "core/algo.h"
#include "cuda/parts/dynamic_shared.h"
#include "cuda/parts/launch_rung.h"
#include "cuda/parts/sum_segments.h"

namespace tiled {

// Each is a constant in its rung's folder, beside the kernel or in launch.cpp: HopperLaunch, say.
#define CPU_RUNG(algo, name)
#define GPU_RUNG(algo, name) extern const RungLaunch algo##Launch;
#define ASYNC_RUNG GPU_RUNG
#define HOPPER_RUNG GPU_RUNG
#include "core/ladder.inc"

namespace {

// Null for rungs that have none in this build.
const RungLaunch* launch_of(Algo algo) {
  static constexpr const RungLaunch* LAUNCHES[] = {
#define CPU_RUNG(algo, name) nullptr,
#define GPU_RUNG(algo, name) &algo##Launch,
#define ASYNC_RUNG GPU_RUNG
#ifdef TILED_MM_HOPPER
#define HOPPER_RUNG GPU_RUNG
#else
#define HOPPER_RUNG CPU_RUNG  // the planner knows that they are missing
#endif
#include "core/ladder.inc"
  };
  return LAUNCHES[static_cast<int>(algo)];
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
