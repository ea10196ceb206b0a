// What reports say of a plan with fp16x3: its kernels, in the order of their launch.
#include <utility>

#include "core/text.h"
#include "cuda/plan/kernel_name.h"
#include "cuda/rungs/9_fp16x3/layout.h"

namespace tiled {
namespace {

std::string kernel_of(const Sides& sides, const Fp16x3Plan& plan) {
  const std::string tile(tile_name_of(plan)), p_major = is_mn_major(sides.p) ? "1" : "0";
  switch (plan.kernel) {
    case Fp16x3Kernel::FewRows:
      return std::string("fp16x3_few_rows<") + (plan.exchanged ? "0, " : "1, ") + p_major + ">";
    case Fp16x3Kernel::Direct:
      return "fp16x3_direct<" + tile + ", " + p_major + (plan.exchanged ? ", 1>" : ", 0>");
    case Fp16x3Kernel::Planes: break;
  }
  return "fp16x3<" + tile + ", " +
         major_names(split_planes(sides.p, nullptr), split_planes(sides.q, nullptr)) + ">";
}

}  // namespace

Description describe_fp16x3(const Problem& problem, const DeviceInfo&, const Plan& whole) {
  const Fp16x3Plan plan = whole.way.as<Fp16x3Plan>();
  const bool planes = plan.kernel == Fp16x3Kernel::Planes;
  const bool few_rows = plan.kernel == Fp16x3Kernel::FewRows;
  Description d;
  d.tile = tile_name_of(plan);
  d.kernel = kernel_of(sides_of(problem, plan.exchanged), plan);
  if (!few_rows) {
    // A lane of wgmma has pairs of columns in two rows of every 8 columns.
    d.thread_m = 2, d.thread_n = fp16x3_tile(plan.tile).block_q / 4;
    if (plan.exchanged) std::swap(d.thread_m, d.thread_n);
  }
  if (problem.k < FP16X3_LEAST_K) {
    d.lines.emplace_back("guard", "computes all elements in fp64, since K is below " +
                                      std::to_string(FP16X3_LEAST_K));
    return d;
  }
  const std::string first = planes ? "A and B" : plan.exchanged ? "A" : "B";
  const std::string on_the_way = planes ? "" : plan.exchanged ? "B on its way, " : "A on its way, ";
  d.lines.emplace_back("split", first + " into two planes of fp16, " + on_the_way +
                                    "with a scale for every row of A and column of B");
  d.lines.emplace_back("product",
                       "hi hi + (hi lo + lo hi) / 2048, added up in fp32 for every 64 of K" +
                           std::string(plan.exchanged && !few_rows ? "; A and B exchanged" : ""));
  d.lines.emplace_back("guard", "elements whose parts lost more than " +
                                    scientific(fp16x3_tolerance(problem.k)) +
                                    " of them, and those not finite: again, in fp64");
  return d;
}

}  // namespace tiled
