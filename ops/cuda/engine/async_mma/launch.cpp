// The launch of rung async_mma.
#include "cuda/engine/async_mma/kernels.h"
#include "cuda/engine/async_mma/plan.h"
#include "cuda/plan/signed_bytes.h"

namespace tiled {
namespace {

Kernel<AsyncMmaArguments> kernel_of(const Problem& computed, const AsyncMmaWay& way) {
  const AsyncMmaKernel wanted = {computed.dtype, reads_signs(computed),
                                 is_mn_major(side_a(computed)), is_mn_major(side_b(computed)),
                                 is_grouped(computed)};
  return with_tile(AllAsyncMmaTiles(), way.tile,
                   [&](auto tile) { return async_mma_kernel<decltype(tile)>(wanted); });
}

cudaError_t launch(const Call& call, const Step& step) {
  const AsyncMmaWay way = call.plan.way.as<AsyncMmaWay>();
  const Problem computed = async_mma_problem(call.read, way);
  return launch_kernel(kernel_of(computed, way), step, call.stream,
                       AsyncMmaArguments{with_totals(call, computed, way.split_k), way.a, way.b});
}

const void* kernel(const Call& call) {
  const AsyncMmaWay way = call.plan.way.as<AsyncMmaWay>();
  return address_of(kernel_of(async_mma_problem(call.read, way), way));
}

}  // namespace

extern const RungLaunch AsyncMmaLaunch = {&launch, &kernel};

}  // namespace tiled
