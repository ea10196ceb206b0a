// The launch of rung async_mma.
#include "cuda/parts/launch_segments.h"
#include "cuda/plan/signed_bytes.h"
#include "cuda/rungs/10_async_mma/kernels.h"
#include "cuda/rungs/10_async_mma/plan.h"

namespace tiled {
namespace {

Kernel<AsyncMmaArguments> kernel_of(const Problem& computed, const AsyncMmaWay& way) {
  const int tile = way.tile;
  const bool of_groups = is_grouped(computed);
  const bool a_along_m = is_mn_major(side_a(computed)), b_along_n = is_mn_major(side_b(computed));
  if (async_mma_tile(tile).of_7_5)
    return async_mma_held_fp16(a_along_m, b_along_n, tile - FIRST_HELD_TILE, of_groups);
  if (computed.dtype == DType::Float32) return async_mma_tf32(tile, of_groups);
  if (reads_signs(computed)) return async_mma_signed_int8(tile, of_groups);
  if (size_of(computed.dtype) == 1) return async_mma_int8(tile, of_groups);
  const bool fp16 = computed.dtype == DType::Float16;
  const auto kernel = !b_along_n   ? fp16 ? &async_mma_fp16_nt : &async_mma_bf16_nt
                      : !a_along_m ? fp16 ? &async_mma_fp16_nn : &async_mma_bf16_nn
                      : fp16       ? &async_mma_fp16_tn
                                   : &async_mma_bf16_tn;
  return kernel(tile, of_groups);
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
