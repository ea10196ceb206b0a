#include "cuda/plan/candidate.h"

#include <algorithm>

#include "cuda/plan/sums.h"

namespace tiled {

int64_t most_tiles(const Problem& problem, int64_t block_m, int64_t block_n) {
  int64_t tiles_m = blocks_over(problem.m, block_m), tiles_n = blocks_over(problem.n, block_n);
  // Each group may end with a part of a tile.
  switch (problem.groups.shared) {
    case Shared::Nothing: break;
    case Shared::M: tiles_m = saturating_sum(tiles_m, problem.batch); break;
    case Shared::N: tiles_n = saturating_sum(tiles_n, problem.batch); break;
    case Shared::K: tiles_m = saturating_product(tiles_m, problem.batch); break;
  }
  return saturating_product(tiles_m, tiles_n);
}

bool is_of_chains(const Problem& problem, const DeviceInfo& device) {
  const bool is_fp64 = problem.dtype == DType::Float64 || problem.dtype == DType::Complex128;
  return problem.arithmetic == Arithmetic::Fma && !(is_fp64 && device.fp64_flops == 0);
}

bool can_launch(const Candidate& candidate, const Problem& problem, const DeviceInfo& device) {
  return candidate.threads_x * candidate.threads_y <= device.threads_per_block &&
         candidate.shared_bytes <= device.shared_bytes_per_block &&
         most_tiles(problem, candidate.block_m, candidate.block_n) <= MAX_GRID_X &&
         groups_fit(problem);
}

Plan plan_of(Algo algo, const Candidate& candidate, const Problem& problem, const Way& way,
             bool swap_ab) {
  return plan_of(algo, way, problem, swap_ab, candidate.block_m, candidate.block_n,
                 candidate.block_k);
}

Step product_of(const Candidate& candidate, const Plan& plan, const Problem& problem,
                const DeviceInfo& device, bool dynamic) {
  Step step{};
  step.work = Work::Product;
  step.threads_x = static_cast<int16_t>(candidate.threads_x);
  step.threads_y = static_cast<int16_t>(candidate.threads_y);
  step.grid_x = saturating_product(plan.tiles_m, plan.tiles_n);
  step.grid_y = static_cast<int32_t>(std::min(problem.batch, MAX_GRID_Y));
  if (is_grouped(problem)) {
    step.grid_x = std::min(most_tiles(problem, candidate.block_m, candidate.block_n),
                           int64_t{candidate.resident} * device.multiprocessors);
    step.grid_y = 1;
  }
  step.shared_bytes = static_cast<int32_t>(candidate.shared_bytes);
  step.dynamic = dynamic;
  return step;
}

void add_product(Plan& plan, Step product, const Problem& problem, bool split_k) {
  const int64_t segments = chain_count(problem);
  if (split_k) {
    product.grid_y =
        static_cast<int32_t>(std::min(saturating_product(problem.batch, segments), MAX_GRID_Y));
    return add_with_sums(plan, product, problem, plan.swap_ab ? TRANSPOSED : 0);
  }
  const int64_t tile = int64_t{plan.block_m} * plan.block_n * accumulator_bytes(problem.dtype);
  const int64_t blocks = saturating_product(product.grid_x, product.grid_y);
  plan.add_with_totals(product, segments < 2 ? 0 : saturating_product(blocks, tile));
}

}  // namespace tiled
