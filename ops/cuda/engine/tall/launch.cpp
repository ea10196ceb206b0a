// The launch of rung tall.
#include "cuda/engine/tall/kernels.h"
#include "cuda/engine/tall/plan.h"
#include "cuda/parts/launch/launch_rung.h"
#include "cuda/plan/sides.h"

namespace tiled {
namespace {

Kernel<TallArguments> kernel_of(const Problem& computed, const TallWay& way) {
  const bool chains = computed.dtype == DType::Float32;
  const TallKernel kernel = {way.tile - (chains ? FIRST_CHAIN_TILE : 0),
                             is_mn_major(side_a(computed)), is_plain(computed, way)};
  if (chains) return tall_fp32(kernel);
  return computed.dtype == DType::Float16 ? tall_fp16(kernel) : tall_bf16(kernel);
}

cudaError_t launch(const Call& call, const Step& step) {
  const TallWay way = call.plan.way.as<TallWay>();
  const TallArguments args = tall_arguments(call.problem, way, call.at<void>(Area::Totals));
  return launch_kernel(kernel_of(args.problem, way), step, call.stream, args);
}

const void* kernel(const Call& call) {
  const TallWay way = call.plan.way.as<TallWay>();
  return address_of(kernel_of(tall_problem(call.problem, way), way));
}

}  // namespace

extern const RungLaunch TallLaunch = {&launch, &kernel};

}  // namespace tiled
