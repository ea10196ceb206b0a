#include "cuda/plan/candidate.h"

#include <algorithm>

#include "cuda/plan/sums.h"

namespace tiled {
namespace {

// Tiles that cover `size` elements. Blocks are powers of two, so no division is needed on the way
// of every call; and no size overflows, unlike (size + block - 1) / block.
int64_t tiles_over(int64_t size, int32_t block) {
  return (size >> __builtin_ctz(block)) + ((size & (block - 1)) != 0);
}

int64_t tiles_of(const Candidate& candidate, const Problem& problem) {
  return saturating_product(tiles_over(problem.m, candidate.block_m),
                            tiles_over(problem.n, candidate.block_n));
}

}  // namespace

bool is_of_chains(const Problem& problem, const DeviceInfo& device) {
  const bool is_fp64 = problem.dtype == DType::Float64 || problem.dtype == DType::Complex128;
  return problem.arithmetic == Arithmetic::Fma && !(is_fp64 && device.fp64_flops == 0);
}

bool can_launch(const Candidate& candidate, const Problem& problem, const DeviceInfo& device) {
  return candidate.threads_x * candidate.threads_y <= device.threads_per_block &&
         candidate.shared_bytes <= device.shared_bytes_per_block &&
         tiles_of(candidate, problem) <= MAX_GRID_X;
}

bool gains_by_sharing(const Candidate& candidate, const Problem& problem,
                      const DeviceInfo& device) {
  constexpr int64_t ROUNDS = 4;  // of blocks, the last of which is not full: of five a tenth idles
  return may_share_segments(problem) &&
         saturating_product(tiles_of(candidate, problem), problem.batch) <
             ROUNDS * candidate.resident * device.multiprocessors;
}

Plan plan_of(Algo algo, const Candidate& candidate, const Problem& problem, const Way& way,
             bool dynamic) {
  Plan plan{};
  plan.algo = algo;
  plan.way = way;
  plan.block_m = candidate.block_m;
  plan.block_n = candidate.block_n;
  plan.block_k = candidate.block_k;
  plan.tiles_m = tiles_over(problem.m, candidate.block_m);
  plan.tiles_n = tiles_over(problem.n, candidate.block_n);
  Step step{};
  step.work = Work::Product;
  step.threads_x = candidate.threads_x;
  step.threads_y = candidate.threads_y;
  step.grid_x = saturating_product(plan.tiles_m, plan.tiles_n);
  step.grid_y = static_cast<int32_t>(std::min(problem.batch, MAX_GRID_Y));
  step.shared_bytes = candidate.shared_bytes;
  step.dynamic = dynamic;
  plan.add(step);
  return plan;
}

void add_totals(Plan& plan, const Problem& problem) {
  if (segment_count(problem.k) < 2) return;
  Step& product = plan.steps[plan.step_count - 1];
  const int64_t tile = int64_t{plan.block_m} * plan.block_n * accumulator_bytes(problem.dtype);
  product.workspace_bytes =
      saturating_product(saturating_product(product.grid_x, product.grid_y), tile);
  plan.workspace_bytes = saturating_sum(plan.workspace_bytes, product.workspace_bytes);
}

void add_sums(Plan& plan, const Problem& problem) {
  Step& product = plan.steps[plan.step_count - 1];
  const SumsLayout layout = sums_layout(problem, segment_count(problem.k));
  product.grid_y = static_cast<int32_t>(
      std::min(saturating_product(problem.batch, layout.segments), MAX_GRID_Y));
  add_sums_step(plan, problem, layout);
}

}  // namespace tiled
