// Rung few_rows as the planner sees it: the operand of fewer rows on the side of columns, each tile
// that just holds it, and a model of what a weight's way through the chip takes.
#include "cuda/rungs/8_few_rows/plan.h"

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "cuda/plan/kernel_name.h"
#include "cuda/plan/rung.h"
#include "cuda/plan/tma.h"

namespace tiled {
namespace {

// The model's constants: cycles of 1755 MHz, as those of rung hopper, that its estimates are
// compared with. From the times of every tile on an H200, 1 to 64 rows by the layers of models of
// 8 and 70 billion parameters and some small ones.
struct Model {
  static constexpr double CLOCK = 1755e6;
  static constexpr double START = 4600;           // launch, the first bytes' way, the end
  static constexpr double TILE = 1000;            // the end of one, where others follow
  static constexpr double DRAM = 0.93;            // of the bandwidth that the device names
  static constexpr double L2_BYTES_A_CYCLE = 52;  // for each multiprocessor, all of them at once
  // Two multiprocessors share a way to L2, which one of them alone uses better.
  static constexpr double ALONE_BYTES_A_CYCLE = 80, PAIR_BYTES_A_CYCLE = 46;
  // A step of 32 bytes of K. On tensor cores: mma.sync after mma.sync of a chain; one of fp64 after
  // one of another; and shared memory's time for a warp's rows and columns.
  static constexpr double mma_chain(int columns) {
    return columns == 8 ? 25.5 : columns == 16 ? 29 : 37;
  }
  static constexpr double MMA_FP64 = 19;
  static constexpr double mma_shared(int columns) { return 1.1 * (4 + columns / 4); }
  // By lanes: a warp's instructions, and shared memory's time for them.
  static constexpr double lanes(int columns) { return 8 * (3.6 + 1.55 * columns); }
  static constexpr double lanes_shared(int columns) { return 8 * (1 + 0.5 * columns); }
  static constexpr double NARROW = 1.08;  // boxes 64 bytes wide, where P lies along m or n
  static constexpr double REPACK_KERNEL = 2000, REPACK_CYCLES_A_BYTE = 0.9e-3;  // of the copy
};

struct Estimate {
  double memory, chain, start;  // cycles
  double cycles;                // of the whole call

  const char* bound() const {
    return start > std::max(memory, chain) ? "start and end" : chain > memory ? "chain" : "memory";
  }
};

// Of 32 bytes of K: a chain's latency, or what its warps' instructions and loads take.
double step_cycles(const FewRowsTileInfo& tile, DType dtype) {
  if (tile.lanes)
    return std::max(Model::lanes(tile.columns), tile.warps * Model::lanes_shared(tile.columns));
  const double in_turn = std::ceil(tile.warps / 4.);  // four tensor cores
  const double products =
      dtype == DType::Float64 ? in_turn * tile.columns / 8 * Model::MMA_FP64 : 0;
  return std::max(
      {Model::mma_chain(tile.columns), products, tile.warps * Model::mma_shared(tile.columns)});
}

Estimate estimate(const Problem& problem, const DeviceInfo& device, const FewRowsPlan& plan) {
  const FewRowsTileInfo& tile = few_rows_tile(plan.tile);
  const FewRowsLayout l = few_rows_layout(problem, plan, nullptr);
  const double row = static_cast<double>(problem.k * size_of(problem.dtype));  // bytes
  const double narrow = is_mn_major(l.sides.p) && tile.block_p < 64 ? Model::NARROW : 1;
  const double tiles = static_cast<double>(tiles_of(problem, plan));
  const double weight = narrow * row * static_cast<double>(l.sides.p.rows) *
                        static_cast<double>(entries_of(l.sides.p, problem.batch));
  const double of_p = row * narrow * tile.block_p, of_q = row * tile.block_q;  // of a tile
  const double dram = Model::DRAM * device.memory_bandwidth / Model::CLOCK;    // bytes a cycle
  const double rounds = std::ceil(tiles / device.multiprocessors);
  const double in_turn = std::ceil(tiles / std::max(1, device.multiprocessors / 2));  // of a pair

  Estimate e;
  e.memory = std::max(
      {weight / dram, tiles * (of_p + of_q) / (Model::L2_BYTES_A_CYCLE * device.multiprocessors),
       in_turn * of_p / (in_turn > 1 ? Model::PAIR_BYTES_A_CYCLE : Model::ALONE_BYTES_A_CYCLE)});
  e.chain = rounds * row / 32 * step_cycles(tile, problem.dtype);
  e.start = Model::START;
  if (l.copies.count() > 0)
    e.start +=
        Model::REPACK_KERNEL + Model::REPACK_CYCLES_A_BYTE * static_cast<double>(l.copies.bytes());
  // The longer of the two, and more where the other comes close; more still where blocks take tiles
  // in turn, since the last are few and hide each other's chains no longer.
  const double power = rounds > 1 ? 2 : 4;
  const double both = std::pow(std::pow(e.memory, power) + std::pow(e.chain, power), 1 / power);
  e.cycles = e.start + (rounds - 1) * Model::TILE + both;
  return e;
}

// fp32's chains are not on tensor cores.
bool by_lanes(const Problem& problem) {
  return problem.arithmetic == Arithmetic::Fma && problem.dtype == DType::Float32;
}

bool supports(const Problem& problem, const DeviceInfo& device) {
  // More than with any tile.
  const int64_t tiles = saturating_product(
      saturating_product(blocks_over(problem.m, 8), blocks_over(problem.n, 8)), problem.batch);
  const bool fp64 = problem.arithmetic == Arithmetic::Fma && problem.dtype == DType::Float64;
  return (is_of_wgmma(problem.arithmetic) || fp64 || by_lanes(problem)) && device.hopper_kernels &&
         sizes_fit_tma(problem) && tiles <= MOST_OF_TMA;
}

template <typename Visit>
void for_few_rows_plans(const Problem& problem, const DeviceInfo& device, Visit visit) {
  for (const bool exchanged : {false, true}) {
    const Sides sides = sides_of(problem, exchanged);
    if (sides.q.rows > sides.p.rows) continue;
    FewRowsPlan plan{};
    plan.exchanged = exchanged;
    plan.repack_p = !tma_reads(sides.p, problem);
    plan.repack_q = !is_mappable(sides.q) || is_mn_major(sides.q);
    const bool mn_major = is_mn_major(few_rows_layout(problem, plan, nullptr).sides.p);
    const int bytes = static_cast<int>(size_of(problem.dtype));
    const auto is_of_kind = [&](const FewRowsTileInfo& tile) {
      return tile.lanes == by_lanes(problem) && fits_registers(tile.threads, bytes) &&
             (!mn_major || takes_mn_major(tile.block_p, bytes));
    };
    // The narrowest that hold Q, or the widest. Tiles stand in the order of their width.
    int columns = 0;
    for (int t = 0; t < FEW_ROWS_TILE_COUNT; ++t)
      if (is_of_kind(few_rows_tile(t)) && (columns == 0 || columns < sides.q.rows))
        columns = few_rows_tile(t).block_q;
    for (int t = 0; t < FEW_ROWS_TILE_COUNT; ++t) {
      const FewRowsTileInfo& tile = few_rows_tile(t);
      if (!is_of_kind(tile) || tile.block_q != columns) continue;
      plan.tile = static_cast<int8_t>(t);
      plan.blocks =
          static_cast<int32_t>(std::min<int64_t>(tiles_of(problem, plan), device.multiprocessors));
      visit(plan);
    }
  }
}

void ways(const Problem& problem, const DeviceInfo& device, Consider consider) {
  for_few_rows_plans(problem, device, [&](const FewRowsPlan& plan) {
    consider(Way(plan), estimate(problem, device, plan).cycles);
  });
}

Plan plan(const Problem& problem, const DeviceInfo&, const Way& way) {
  const FewRowsPlan choice = way.as<FewRowsPlan>();
  const FewRowsTileInfo& tile = few_rows_tile(choice.tile);
  Plan plan = tma_plan(Algo::FewRows, problem, choice.exchanged ? tile.block_q : tile.block_p,
                       choice.exchanged ? tile.block_p : tile.block_q, way);
  plan.block_k *= tile.boxes;
  if (problem.k == 0) {
    add_zeros(plan, problem);
    return plan;
  }
  const FewRowsLayout layout = few_rows_layout(problem, choice, nullptr);
  add_copies(plan, layout.copies, problem);
  plan.add(product_step(tile.threads, choice.blocks, tile.shared_bytes));
  return plan;
}

std::string text_of(std::string_view tile, const Estimate& e) {
  return std::string(tile) + ": " + grouped(e.cycles) + " cycles; " + grouped(e.memory) +
         " of memory, " + grouped(e.chain) + " of the chain, " + grouped(e.start) +
         " of start and end";
}

// In JSON:
//
//   few_rows  {exchanged, repack_a, repack_b, bound: "memory", "chain" or "start and end",
//             estimates: [{tile, exchanged, memory, chain, start, cycles (of the call)}]}
Description describe(const Problem& problem, const DeviceInfo& device, const Plan& whole) {
  const FewRowsPlan plan = whole.way.as<FewRowsPlan>();
  const FewRowsTileInfo& tile = few_rows_tile(plan.tile);
  const Sides sides = few_rows_layout(problem, plan, nullptr).sides;
  const Estimate e = estimate(problem, device, plan);
  Description d;
  d.tile = few_rows_tile_name(plan.tile);
  d.kernel = (tile.lanes ? "few_rows_by_lanes<" + d.tile
                         : "few_rows<" + d.tile + ", " + wgmma_type(problem.dtype)) +
             ", " + (is_mn_major(sides.p) ? "1" : "0") + ">";
  // A lane of mma.sync has a pair of columns in two rows of every 16 x 8.
  d.thread_m = tile.lanes ? 1 : 2, d.thread_n = tile.lanes ? tile.columns : tile.columns / 4;
  if (plan.exchanged) std::swap(d.thread_m, d.thread_n);
  d.lines.emplace_back("bound", e.bound());
  const bool repack_a = plan.exchanged ? plan.repack_q : plan.repack_p;
  const bool repack_b = plan.exchanged ? plan.repack_p : plan.repack_q;
  if (repack_a || repack_b)
    d.lines.emplace_back("repacks", repack_a && repack_b ? "A and B" : repack_a ? "A" : "B");
  std::vector<std::string> list;
  for_few_rows_plans(problem, device, [&](const FewRowsPlan& other) {
    const Estimate found = estimate(problem, device, other);
    const std::string_view name = few_rows_tile_name(other.tile);
    const bool chosen = other.tile == plan.tile && other.exchanged == plan.exchanged;
    d.lines.emplace_back(chosen ? "estimate" : "rejected", text_of(name, found));
    list.push_back(Object()
                       .text("tile", name)
                       .truth("exchanged", other.exchanged)
                       .real("memory", found.memory)
                       .real("chain", found.chain)
                       .real("start", found.start)
                       .real("cycles", found.cycles)
                       .str());
  });
  d.json.emplace_back("few_rows", Object()
                                      .truth("exchanged", plan.exchanged)
                                      .truth("repack_a", repack_a)
                                      .truth("repack_b", repack_b)
                                      .text("bound", e.bound())
                                      .json("estimates", array_of(list))
                                      .str());
  return d;
}

bool is(const Way& way, const NamedWay& name) {
  const FewRowsPlan plan = way.as<FewRowsPlan>();
  return few_rows_tile_name(plan.tile) == name.tile && plan.exchanged == name.exchanged;
}

}  // namespace

extern const Rung FewRowsRung = {Algo::FewRows, &supports, &ways, &plan, &describe, &is};

}  // namespace tiled
