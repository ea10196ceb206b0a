// Reports say this of a plan with hopper: its choices.
#include "cuda/plan/describe.h"

#include "core/text.h"
#include "cuda/engine/hopper/plan.h"
#include "cuda/plan/copies.h"
#include "cuda/plan/kernel_name.h"

namespace tiled {
namespace {

std::string kernel_family(const Problem& problem) {
  return problem.leaf > 0      ? "hopper_of_trees<"
         : is_grouped(problem) ? "hopper_of_groups<"
                               : "hopper<";
}

std::string scaled_kernel(const Problem& problem, const HopperPlan& plan) {
  const auto operand = [&](bool is_a) -> std::string {
    const DType dtype = is_a ? problem.dtype : problem.scales.b_dtype;
    return dtype == DType::Float8E4M3FN ? "ptx::E4m3" : "ptx::E5m2";
  };
  const char* result =
      problem.epilogue.out_dtype == DType::Float16 ? "__half" : "__nv_bfloat16";  // or fp32
  const std::string operands = is_fp8(problem.dtype) ? "Fp8Scaled<" + operand(!plan.swap_ab) +
                                                           ", " + operand(plan.swap_ab) + ", "
                                                     : "Int8Scaled<";
  return std::string(is_grouped(problem) ? "hopper_scaled_of_groups<" : "hopper_scaled<") +
         std::string(hopper_tile_name(plan.tile)) + ", " + operands + result +
         (finishes(problem, plan) || is_grouped(problem) ? ">, 1>" : ">, 0>");
}

}  // namespace

Description describe_hopper(const Problem& problem, const DeviceInfo&, const Plan& whole) {
  const HopperPlan plan = whole.way.as<HopperPlan>();
  const HopperTileInfo& tile = hopper_tile(plan.tile);
  const Sides sides = sides_of(problem_as_read(problem, whole), plan.swap_ab);
  const auto [repack_a, repack_b] = copied_operands(whole);
  Description d;
  d.tile = hopper_tile_name(plan.tile);
  if (is_scaled(problem))
    d.kernel = scaled_kernel(problem, plan);
  else
    d.kernel = kernel_family(problem) + d.tile + ", " + wgmma_type(problem) + ", " +
               major_names(sides.p, sides.q) +
               (problem.leaf > 0          ? ">"
                : finishes(problem, plan) ? ", 1>"
                                          : ", 0>");
  // A lane of wgmma has pairs of columns in two rows of every 8 columns.
  d.thread_m = tile.group_p / 64 * 2, d.thread_n = tile.block_q / 4;

  d.lines.emplace_back("roles", std::string(tile.ping_pong ? "consumers take tiles in turn"
                                                           : "consumers share a tile") +
                                    (plan.swap_ab ? "; swap_ab" : ""));
  const int blocks = plan.cluster_p * plan.cluster_q;
  if (blocks > 1)
    d.lines.emplace_back("cluster", std::to_string(blocks) + " blocks share an operand");
  if (const char* const repacked = names_of_operands(repack_a, repack_b))
    d.lines.emplace_back("repacks", repacked);
  if (plan.split_k)
    d.lines.emplace_back(problem.leaf > 0 ? "leaves" : "segments",
                         "shared out; a second kernel adds the sums");
  d.json.emplace_back("hopper", Object()
                                    .truth("swap_ab", plan.swap_ab)
                                    .count("cluster_p", plan.cluster_p)
                                    .count("cluster_q", plan.cluster_q)
                                    .count("panel", plan.panel)
                                    .truth("split_k", plan.split_k)
                                    .truth("repack_a", repack_a)
                                    .truth("repack_b", repack_b)
                                    .text("store", plan.stores_by_tma ? "tma" : "rows")
                                    .str());
  return d;
}

}  // namespace tiled
