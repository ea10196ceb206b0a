// Reports say this of a plan with fp16x3: its kernels, in the order of their launch.
#include "core/text.h"
#include "cuda/engine/fp16x3/layout.h"
#include "cuda/plan/fp16x3.h"
#include "cuda/plan/kernel_name.h"
#include "cuda/plan/stream_k_plan.h"

namespace tiled {
namespace {

std::string kernel_of(const Sides& sides, const Fp16x3Plan& plan) {
  const std::string tile(tile_name_of(plan)), p_major = is_mn_major(sides.p) ? "1" : "0";
  switch (plan.kernel) {
    case Fp16x3Kernel::FewRows:
      return std::string("fp16x3_few_rows<") + (plan.swap_ab ? "0, " : "1, ") + p_major +
             (plan.cluster_p > 1 ? ", 1>" : ", 0>");
    case Fp16x3Kernel::Direct:
      return "fp16x3_direct<" + tile + ", " + p_major + (plan.swap_ab ? ", 1>" : ", 0>");
    case Fp16x3Kernel::Async: return "fp16x3_async<" + tile + ">";
    case Fp16x3Kernel::Planes: break;
  }
  return (plan.stream_k ? "fp16x3_stream_k<" : "fp16x3<") + tile + ", " +
         major_names(split_planes(sides.p), split_planes(sides.q)) + ">";
}

}  // namespace

Description describe_fp16x3(const Problem& problem, const DeviceInfo& device, const Plan& whole) {
  const Fp16x3Plan plan = whole.way.as<Fp16x3Plan>();
  const bool async = plan.kernel == Fp16x3Kernel::Async;
  const bool planes = plan.kernel == Fp16x3Kernel::Planes || async;
  const bool few_rows = plan.kernel == Fp16x3Kernel::FewRows;
  Description d;
  d.tile = tile_name_of(plan);
  d.kernel = kernel_of(sides_of(problem, plan.swap_ab), plan);
  if (!fp16x3_pays(device))
    d.lines.emplace_back("rate", "fp16 with fp32 sums is slow here: a third of " +
                                     with_unit(device.tensor_flops, "flop/s") +
                                     " is less than fp32 has by itself, " +
                                     with_unit(device.fp32_flops, "flop/s") +
                                     ", so it is taken only where a call asks for it");
  if (async) {
    // A lane of mma.sync has a pair of columns in two rows of every 16 x 8 of its warp's.
    d.thread_m = 4;
    d.thread_n =
        with_tile(Fp16x3AsyncTiles(), plan.tile, [](auto tile) { return tile.WARP_Q / 4; });
  } else if (!few_rows) {
    // A lane of wgmma has pairs of columns in two rows of every 8 columns.
    d.thread_m = 2, d.thread_n = tile_of(plan).block_q / 4;
  }
  const int64_t least_k = fp16x3_least_k(plan.coarse);
  if (problem.k < least_k) {
    d.lines.emplace_back(
        "guard", "computes all elements in fp64, since K is below " + std::to_string(least_k));
    return d;
  }
  const std::string first = planes ? "A and B" : plan.swap_ab ? "A" : "B";
  const std::string on_the_way = planes ? "" : plan.swap_ab ? "B on its way, " : "A on its way, ";
  d.lines.emplace_back("split", first + " into two planes of fp16, " + on_the_way +
                                    "with a scale for every row of A and column of B");
  d.lines.emplace_back("product",
                       "hi hi + (hi lo + lo hi) / 2048, added up in fp32 for every 64 of K" +
                           std::string(plan.swap_ab && !few_rows ? "; swap_ab" : ""));
  describe_stream_k(d, plan.stream_k ? plan.blocks : 0);
  d.lines.emplace_back("guard", "elements whose parts lost more than " +
                                    scientific(fp16x3_tolerance(problem.k, plan.coarse)) +
                                    " of them, and those not finite: again, in fp64");
  return d;
}

}  // namespace tiled
