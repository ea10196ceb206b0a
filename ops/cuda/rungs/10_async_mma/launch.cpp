// The launch of rung async_mma, with the copies before it.
#include "cuda/parts/launch_rung.h"
#include "cuda/parts/launch_segments.h"
#include "cuda/parts/repack.h"
#include "cuda/plan/signed_bytes.h"
#include "cuda/rungs/10_async_mma/kernels.h"
#include "cuda/rungs/10_async_mma/plan.h"

namespace tiled {
namespace {

Kernel<AsyncMmaArguments> kernel_of(const Problem& computed, const AsyncMmaWay& way) {
  if (async_mma_tile(way.tile).of_7_5)
    return async_mma_held_fp16(is_mn_major(side_a(computed)), is_mn_major(side_b(computed)),
                               way.tile - FIRST_HELD_TILE);
  if (computed.dtype == DType::Float32) return async_mma_tf32(way.tile);
  if (reads_signs(computed)) return async_mma_signed_int8(way.tile);
  if (size_of(computed.dtype) == 1) return async_mma_int8(way.tile);
  const bool fp16 = computed.dtype == DType::Float16;
  if (!is_mn_major(side_b(computed)))
    return fp16 ? async_mma_fp16_nt(way.tile) : async_mma_bf16_nt(way.tile);
  if (!is_mn_major(side_a(computed)))
    return fp16 ? async_mma_fp16_nn(way.tile) : async_mma_bf16_nn(way.tile);
  return fp16 ? async_mma_fp16_tn(way.tile) : async_mma_bf16_tn(way.tile);
}

cudaError_t launch(const Problem& problem, const Plan& plan, void* workspace, cudaStream_t stream) {
  const AsyncMmaWay way = plan.way.as<AsyncMmaWay>();
  const AsyncMmaLayout l = async_mma_layout(problem, way, workspace);
  const cudaError_t error = launch_copies(l.copies, problem, plan.begin(), stream);
  if (error != cudaSuccess) return error;
  void* const totals = static_cast<char*>(workspace) + l.copies.bytes();
  return launch_segments(
      l.computed, plan, way.shares_segments, totals, stream, [&](const ProblemAndTotals& product) {
        const AsyncMmaArguments args = {product.problem, product.totals, way.a, way.b,
                                        product.shares_segments};
        return launch_kernel(kernel_of(l.computed, way), plan.main_step(), stream, args);
      });
}

const void* kernel(const Problem& problem, const Plan& plan) {
  const AsyncMmaWay way = plan.way.as<AsyncMmaWay>();
  return address_of(kernel_of(async_mma_layout(problem, way, nullptr).computed, way));
}

}  // namespace

extern const RungLaunch AsyncMmaLaunch = {&launch, &kernel};

}  // namespace tiled
