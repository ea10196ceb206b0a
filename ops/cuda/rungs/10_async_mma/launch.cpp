// The launch of rung async_mma.
#include "cuda/parts/launch_rung.h"
#include "cuda/rungs/10_async_mma/kernels.h"
#include "cuda/rungs/10_async_mma/plan.h"

namespace tiled {
namespace {

Kernel<AsyncMmaArguments> kernel_of(const Problem& problem, const AsyncMmaWay& way) {
  if (problem.dtype == DType::Float32) return async_mma_tf32(way.tile);
  if (size_of(problem.dtype) == 1) return async_mma_int8(way.tile);
  const Problem turned = as_computed(problem, way);
  const bool fp16 = problem.dtype == DType::Float16;
  if (!is_mn_major(side_b(turned)))
    return fp16 ? async_mma_fp16_nt(way.tile) : async_mma_bf16_nt(way.tile);
  if (!is_mn_major(side_a(turned)))
    return fp16 ? async_mma_fp16_nn(way.tile) : async_mma_bf16_nn(way.tile);
  return fp16 ? async_mma_fp16_tn(way.tile) : async_mma_bf16_tn(way.tile);
}

cudaError_t launch(const Problem& problem, const Plan& plan, void* workspace, cudaStream_t stream) {
  const AsyncMmaWay way = plan.way.as<AsyncMmaWay>();
  const AsyncMmaArguments args = {as_computed(problem, way), workspace, way.a, way.b};
  return launch_kernel(kernel_of(problem, way), plan.main_step(), stream, args);
}

const void* kernel(const Problem& problem, const Plan& plan) {
  return address_of(kernel_of(problem, plan.way.as<AsyncMmaWay>()));
}

}  // namespace

extern const RungLaunch AsyncMmaLaunch = {&launch, &kernel};

}  // namespace tiled
