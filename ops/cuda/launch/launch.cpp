#include "cuda/launch/launch.h"

#include <algorithm>

#include "cuda/launch/launch_tma.h"
#include "cuda/parts/dynamic_shared.h"
#include "cuda/parts/launch_early.h"
#include "cuda/parts/repack.h"
#include "cuda/plan/hopper_layout.h"
#include "cuda/plan/tiles.h"
#include "cuda/rungs/kernels.h"

namespace tiled {
namespace {

const void* kernel_of(const Problem& problem, const Plan& plan) {
  switch (plan.algo) {
    case Algo::Naive: return naive_kernel(problem, plan);
    case Algo::SharedTile8:
    case Algo::SharedTile16:
    case Algo::SharedTile32: return shared_tile_kernel(problem, plan);
    case Algo::RegisterTile:
      return plan.async ? register_tile_async_kernel(plan) : register_tile_kernel(problem, plan);
    case Algo::MmaTile:
      return is_fp64_mma(problem, plan) ? mma_tile_fp64_kernel(problem, plan)
                                        : mma_tile_kernel(problem);
    case Algo::TmaWgmma:
    case Algo::WarpSpecialized:
    case Algo::Hopper:
    case Algo::Fp16x3: return tma_kernel(problem, plan);
    case Algo::Blocked: break;  // a CPU rung: the planner never chooses it
  }
  return nullptr;
}

bool uses_tma(Algo algo) {
  return algo == Algo::TmaWgmma || algo == Algo::WarpSpecialized || algo == Algo::Hopper ||
         algo == Algo::Fp16x3;
}

// Bytes of shared memory beyond what the kernel declares itself.
int dynamic_shared(const Problem& problem, const Plan& plan) {
  const bool dynamic = uses_tma(plan.algo) || is_fp64_mma(problem, plan);
  return dynamic ? static_cast<int>(plan.shared_bytes) : 0;
}

cudaError_t launch_fp64_mma(const Problem& problem, const Plan& plan, void* workspace,
                            cudaStream_t stream) {
  ProblemAndTotals args{problem, workspace};
  // The alignment says to the kernel what the plan's access is.
  args.problem.a.alignment = plan.access_a == Access::Elements ? 8 : 16;
  args.problem.b.alignment = plan.access_b == Access::Elements ? 8 : 16;
  return launch_early(mma_tile_fp64_kernel(problem, plan), dim3(plan.grid_x, plan.grid_y),
                      plan.threads_x, dynamic_shared(problem, plan), /*cluster=*/0, stream, &args);
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

// Transposes the operands that the plan says into the workspace from `free` on, where `problem`
// then has them.
cudaError_t launch_transposes(Problem& problem, const Plan& plan, char* free, cudaStream_t stream) {
  Copy copies[2];
  int count = 0;
  const auto to_workspace = [&](const Side& from) {
    const Side to = transposed(from, problem, free);
    free += workspace_aligned(transposed_bytes(from, problem));
    copies[count++] = {from, to};
    return to;
  };
  if (plan.transpose_a) {
    const Side a = to_workspace(side_a(problem));
    problem.a = {a.data, a.row_stride, a.k_stride, a.batch_stride, a.alignment};
  }
  if (plan.transpose_b) {
    const Side b = to_workspace(side_b(problem));
    problem.b = {b.data, b.k_stride, b.row_stride, b.batch_stride, b.alignment};
  }
  return launch_copies(copies, count, problem, stream);
}

}  // namespace

cudaError_t launch(const Problem& problem, const Plan& plan, void* workspace, cudaStream_t stream) {
  if (plan.algo == Algo::Fp16x3) return launch_fp16x3(problem, plan, workspace, stream);
  // Nothing to load: tensor maps of nothing do not exist, and any rung's zeros are the same.
  if (problem.k == 0 && uses_tma(plan.algo)) return launch_mma_tile(problem, stream);
  if (plan.algo == Algo::Hopper) return launch_hopper(problem, plan.hopper, workspace, stream);
  if (uses_tma(plan.algo)) return launch_wgmma(problem, plan, stream);
  if (is_fp64_mma(problem, plan)) return launch_fp64_mma(problem, plan, workspace, stream);
  ProblemAndTotals args{problem, workspace};
  char* const free = static_cast<char*>(workspace) + totals_bytes(problem, plan);
  if (const cudaError_t error = launch_transposes(args.problem, plan, free, stream);
      error != cudaSuccess)
    return error;
  void* arguments[] = {&args};  // of which some kernels take the Problem alone
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
  const int shared = dynamic_shared(problem, plan);
  if (const cudaError_t error = allow_shared(kernel, shared); error != cudaSuccess) return error;
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&result->blocks_per_sm, kernel,
                                                       plan.threads_x * plan.threads_y, shared);
}

}  // namespace tiled
