#include "cuda/launch/launch.h"

#include "core/algo.h"
#include "cuda/parts/launch/dynamic_shared.h"
#include "cuda/parts/launch/launch_rung.h"
#include "cuda/plan/tree_pass.h"

namespace tiled {

// Each is a constant in its rung's folder, beside the kernel or in launch.cpp: HopperLaunch, say.
#define CPU_RUNG(algo, name, is_lesson)
#define GPU_RUNG(algo, name, is_lesson) extern const RungLaunch algo##Launch;
#define ASYNC_RUNG GPU_RUNG
#define HOPPER_RUNG GPU_RUNG
#include "core/ladder.inc"

namespace {

// Null for rungs that have none in this build.
const RungLaunch* launch_of(Algo algo) {
  static constexpr const RungLaunch* LAUNCHES[] = {
#define CPU_RUNG(algo, name, is_lesson) nullptr,
#define GPU_RUNG(algo, name, is_lesson) &algo##Launch,
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

cudaError_t launch_step(const RungLaunch& rung, const Call& call, const Step& step) {
  switch (step.work) {
    case Work::Copy: return launch_copies(call, step);
    case Work::Clear: return launch_clear_words(call, step);
    case Work::Sums:
      if (call.problem.leaf == 0) return launch_sums(call, step);
      return launch_tree_sum(tree_pass(problem_of_pass(call, step), call.at<void>(Area::Totals)),
                             call.stream);
    default: return rung.launch(call, step);
  }
}

}  // namespace

cudaError_t launch(const Problem& problem, const Plan& plan, void* workspace, cudaStream_t stream) {
  const RungLaunch* rung = launch_of(plan.algo);
  if (rung == nullptr) return cudaErrorNoKernelImageForDevice;
  const Call call = call_of(problem, plan, workspace, stream);
  for (const Step& step : plan)
    if (const cudaError_t error = launch_step(*rung, call, step); error != cudaSuccess)
      return error;
  return cudaSuccess;
}

cudaError_t attributes(const Problem& problem, const Plan& plan, LaunchAttributes* result) {
  const RungLaunch* rung = launch_of(plan.algo);
  if (rung == nullptr) return cudaErrorNoKernelImageForDevice;
  const void* kernel = rung->kernel(call_of(problem, plan));
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
