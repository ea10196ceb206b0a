// The launch of rung async_mma.
#include "cuda/parts/launch_segments.h"
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

cudaError_t launch(const Call& call, const Step& step) {
  const AsyncMmaWay way = call.plan.way.as<AsyncMmaWay>();
  const Problem computed = as_turned(call.read, way);
  const ProblemAndTotals product = with_totals(call, computed, way.shares_segments);
  return launch_kernel(
      kernel_of(computed, way), step, call.stream,
      AsyncMmaArguments{product.problem, product.totals, way.a, way.b, product.shares_segments});
}

const void* kernel(const Call& call) {
  const AsyncMmaWay way = call.plan.way.as<AsyncMmaWay>();
  return address_of(kernel_of(as_turned(call.read, way), way));
}

}  // namespace

extern const RungLaunch AsyncMmaLaunch = {&launch, &kernel};

}  // namespace tiled
