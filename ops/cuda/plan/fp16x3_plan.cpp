#include "cuda/plan/fp16x3_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cuda/plan/fp16x3_layout.h"

namespace tiled {
namespace {

// TMA's coordinates, the kernels' counters and the guard's squares have 31 bits.
constexpr int64_t MAX_SIZE = (int64_t{1} << 31) - 512;
constexpr int64_t MAX_ELEMENTS = int64_t{1} << 54;  // of the planes: their bytes can be counted

// The model: cycles of one multiprocessor. A tile takes 12 wgmma of 64 x BLOCK_Q x 16 for each 64
// of K and 64 rows, and its accumulators are added up after each. Factors measured on an H200.
constexpr double tensor_cycles(const Fp16x3TileInfo& tile) {
  return 12.0 * tile.block_q / 2 * tile.block_p / 64;
}
constexpr double TURNS = 1.08;     // two consumers in turn keep the tensor cores busy
constexpr double PAIRS = 1.45;     // two blocks, each waiting for its own operands, less so
constexpr double PROMOTION = 350;  // of a consumer alone
constexpr double START = 4000, STORE = 3000;
constexpr double SHARED_OPERAND = 0.985;  // of a step, where a cluster halves an operand's bytes
// A step of rungs/9_fp16x3/direct.cu.
constexpr double DIRECT = 850, DIRECT_NARROW = 680;
constexpr double MEMORY = 1500;  // bytes that all multiprocessors together read or write

double cycles(const Problem& problem, const DeviceInfo& device, const HopperPlan& plan) {
  const Fp16x3TileInfo tile = fp16x3_tile(plan.tile);
  const int sharers = plan.cluster_p * plan.cluster_q;
  const double steps = static_cast<double>(blocks_over(problem.k, 64));
  const int64_t p = plan.exchanged ? problem.n : problem.m;
  const int64_t q = plan.exchanged ? problem.m : problem.n;
  const double units = static_cast<double>(blocks_over(p, int64_t{tile.block_p} * plan.cluster_p)) *
                       static_cast<double>(blocks_over(q, int64_t{tile.block_q} * plan.cluster_q)) *
                       static_cast<double>(problem.batch);
  const double rounds = std::ceil(units / (device.multiprocessors / sharers));
  const double tensor = tensor_cycles(tile);
  const bool pairs = tile.blocks_per_sm == 2 && rounds > 1;
  double step = tensor + PROMOTION;
  if (tile.block_p > 64) step = TURNS * tensor;
  if (pairs) step = std::max(PAIRS * tensor, step / 2);
  if (is_direct(plan.tile)) step = tile.block_q == 64 ? DIRECT : DIRECT_NARROW;
  if (sharers == 2 && rounds > 1) step *= SHARED_OPERAND;
  // What is split is read and written, what is measured is read.
  const double of_p = static_cast<double>(p) * (is_direct(plan.tile) ? 4 : 8);
  const double of_q = static_cast<double>(q) * 8;
  const double split =
      (of_p + of_q) * static_cast<double>(problem.k) * static_cast<double>(problem.batch) / MEMORY;
  return START + split + rounds * (steps * step + STORE / (pairs ? 2 : 1));
}

// With more rows the terms of a deep K have no room, and to read W twice is the better way.
bool has_few_rows(const Problem& problem) {
  const int64_t few = std::min(problem.m, problem.n);
  return few <= FEW_ROWS / 2 || (few <= FEW_ROWS && problem.k <= 8192);
}

template <typename Visit>
void for_fp16x3_plans(const Problem& problem, const DeviceInfo& device, Visit visit) {
  constexpr std::pair<int, int> CLUSTERS[] = {{1, 1}, {2, 1}, {1, 2}};
  for (int t = 0; t < FP16X3_TILE_COUNT; ++t)
    for (const bool exchanged : {false, true})
      for (const auto& [cluster_p, cluster_q] : CLUSTERS) {
        if (is_direct(t) && !is_mappable(exchanged ? side_b(problem) : side_a(problem))) continue;
        const Fp16x3TileInfo tile = fp16x3_tile(t);
        const int sharers = cluster_p * cluster_q;
        const int64_t p = exchanged ? problem.n : problem.m, q = exchanged ? problem.m : problem.n;
        const int64_t clusters_p = blocks_over(p, int64_t{tile.block_p} * cluster_p);
        const int64_t units =
            clusters_p * blocks_over(q, int64_t{tile.block_q} * cluster_q) * problem.batch;
        HopperPlan plan{};
        plan.tile = static_cast<int8_t>(t);
        plan.exchanged = exchanged;
        plan.cluster_p = static_cast<int8_t>(cluster_p);
        plan.cluster_q = static_cast<int8_t>(cluster_q);
        plan.store = StorePath::Scatter;
        plan.panel = static_cast<int32_t>(std::clamp<int64_t>(clusters_p, 1, 16 / cluster_p));
        const int64_t places = int64_t{device.multiprocessors} * tile.blocks_per_sm / sharers;
        plan.blocks = static_cast<int32_t>(std::min(units, places) * sharers);
        visit(plan);
      }
}

}  // namespace

double fp16x3_tolerance(int64_t k) {
  const double terms = static_cast<double>(k);
  const double g = std::min(terms, 8 * std::sqrt(terms));
  const double sums =
      k < DEEP_K ? std::ceil(terms / 64) - 1 : SEGMENT_K / 64 - 1 + segment_count(k);
  return (g - (53.2 + sums)) * 0x1p-24;
}

bool fp16x3_supports(const Problem& problem, const DeviceInfo& device) {
  const int64_t few = std::min(problem.m, problem.n), many = std::max(problem.m, problem.n);
  const int64_t rows = has_few_rows(problem) ? few : saturating_product(2, many);
  const int64_t elements = saturating_product(saturating_product(rows, problem.k), problem.batch);
  if (elements > MAX_ELEMENTS) return false;
  return problem.arithmetic == Arithmetic::Fp16x3 && device.hopper_kernels &&
         problem.m <= MAX_SIZE && problem.n <= MAX_SIZE && problem.k <= MAX_SIZE &&
         problem.batch <= MAX_SIZE / 2 &&
         saturating_product(
             saturating_product(blocks_over(problem.m, 64), blocks_over(problem.n, 64)),
             problem.batch) <= MAX_SIZE;
}

std::vector<HopperPlan> fp16x3_plans(const Problem& problem, const DeviceInfo& device) {
  std::vector<HopperPlan> plans;
  for_fp16x3_plans(problem, device, [&](const HopperPlan& plan) { plans.push_back(plan); });
  return plans;
}

Plan fp16x3_plan_with(const Problem& problem, const DeviceInfo& device, const HopperPlan& choice) {
  const Fp16x3TileInfo tile = fp16x3_tile(choice.tile);
  Plan plan{};
  plan.algo = Algo::Fp16x3;
  plan.access_a = plan.access_b = Access::Elements;
  plan.hopper = choice;
  plan.block_m = choice.exchanged ? tile.block_q : tile.block_p;
  plan.block_n = choice.exchanged ? tile.block_p : tile.block_q;
  plan.block_k = 64;
  plan.threads_x = tile.threads, plan.threads_y = 1;
  plan.tiles_m = blocks_over(problem.m, plan.block_m);
  plan.tiles_n = blocks_over(problem.n, plan.block_n);
  plan.grid_x = std::max(choice.blocks, 1), plan.grid_y = 1;
  plan.shared_bytes = tile.shared_bytes;
  if (choice.tile == FEW_ROWS_INDEX) {
    const bool one_each = plan.tiles_m * plan.tiles_n * problem.batch <= device.multiprocessors;
    const FewRowsBlock block = few_rows_block(std::min(problem.m, problem.n), problem.k, one_each);
    plan.threads_x = block.threads, plan.shared_bytes = block.shared_bytes;
    plan.slots = block.slots;
  }
  const int64_t squares =
      blocks_over(problem.m, GUARD_SQUARE) * blocks_over(problem.n, GUARD_SQUARE) * problem.batch;
  // Most often they find nothing to do: then the fewer, the sooner they have.
  const int64_t places = int64_t{problem.k < FP16X3_LEAST_K ? 2 : 1} * device.multiprocessors;
  plan.guard_blocks = static_cast<int32_t>(std::min(squares, places));
  if (problem.k >= FP16X3_LEAST_K) plan.workspace_bytes = fp16x3_layout(problem, choice).bytes;
  return plan;
}

Plan make_fp16x3_plan(const Problem& problem, const DeviceInfo& device) {
  if (has_few_rows(problem)) {
    HopperPlan plan{};
    plan.tile = FEW_ROWS_INDEX;
    plan.exchanged = problem.m < problem.n;
    plan.cluster_p = plan.cluster_q = 1;
    plan.panel = 1;
    plan.store = StorePath::Scatter;
    plan.blocks =
        static_cast<int32_t>(blocks_over(std::max(problem.m, problem.n), FEW_ROWS_TILE.block_p));
    return fp16x3_plan_with(problem, device, plan);
  }
  HopperPlan best{};
  double best_cycles = std::numeric_limits<double>::infinity();
  const bool by_columns = problem.c.row_stride == 1 && problem.c.col_stride != 1;
  for_fp16x3_plans(problem, device, [&](const HopperPlan& plan) {
    // Tiles of planes are square: Q is the side along which C lies.
    if (!is_direct(plan.tile) && plan.exchanged != by_columns) return;
    const double estimate = cycles(problem, device, plan);
    if (estimate < best_cycles) best = plan, best_cycles = estimate;
  });
  return fp16x3_plan_with(problem, device, best);
}

}  // namespace tiled
