// Rung tall as the planner sees it: either operand as the long one, each tile, and a model of how
// fast strips stream past the short one.
#include "cuda/rungs/11_tall/plan.h"

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "cuda/plan/candidate.h"
#include "cuda/plan/chip_scale.h"
#include "cuda/plan/kernel_name.h"
#include "cuda/plan/kernels_of.h"
#include "cuda/plan/rung.h"
#include "cuda/plan/sums.h"

namespace tiled {
namespace {

// What a strip takes of a multiprocessor that is full of warps: cycles, fitted to measured times.
// They are a warp's own instructions, most of them, which wait for one another: neither tensor
// cores nor shared memory are busy all the time.
struct StripCost {
  double strip;  // for itself
  double stage;  // for each of its stages
  double step;   // for each 16 of K
  double work;   // of chains: for 1024 multiply-adds; else for a step of 16 columns
  double loads;  // of chains: for a load of 16 bytes a lane
  double out;    // for 512 elements of C
};
constexpr StripCost FRAGMENTS_PLAIN = {70, 10, 25, 5, 0, 15};
constexpr StripCost FRAGMENTS = {111, 14, 47, 5, 0, 29};
constexpr StripCost FRAGMENTS_SHIFTED = {67, 0, 147, 37, 0, 0};
constexpr StripCost CHAINS = {9, 61, 0, 14, 0, 108};
constexpr StripCost CHAINS_SHIFTED = {0, 0, 0, 0, 4.7, 100};

// The model's other constants: cycles of 1755 MHz, as those of rungs hopper and few_rows.
struct Model {
  static constexpr double CLOCK = 1755e6;
  // More, on tensor cores, for each 16 of K beyond the first of a strip: of deep ones fewer are on
  // their way at once.
  static constexpr double NEAR_STEPS = 4, FAR_STEP = 75;
  static constexpr double START = 4500;  // launch, the first bytes' way, the end
  static constexpr double DRAM = 0.85;   // of the bandwidth that the device names
  static constexpr double L2 = 40;       // bytes a cycle of a multiprocessor, of what is read again
  // Of the panel: the way of its first bytes, and cycles a byte.
  static constexpr double PANEL = 800, PANEL_BYTE = 0.15;
  // A lone warp's cycles around a strip and a stage.
  static constexpr double STRIP_LATENCY = 1000, STAGE_LATENCY = 1000;
  // For an element that is copied singly, and one that goes through an epilogue, of 32.
  static constexpr double SINGLY = 3, EPILOGUE = 8;
  static constexpr double POWER = 4;  // how sharply the longer of what overlaps decides
};

struct Estimate {
  double memory, work, latency;  // cycles
  double cycles;                 // of the whole call

  const char* bound() const {
    return memory >= std::max(work, latency) ? "memory"
           : work >= latency                 ? "instructions"
                                             : "a strip's latency";
  }
};

double beside(double a, double b) {
  return std::pow(std::pow(a, Model::POWER) + std::pow(b, Model::POWER), 1 / Model::POWER);
}

int64_t strips_of(const Problem& p, const TallWay& way) {
  return blocks_over(p.m, int64_t{tall_tile(way.tile).rows});
}

int64_t shared_bytes_of(const TallWay& way) {
  const TallTileInfo& tile = tall_tile(way.tile);
  return tile.rings_bytes + (tile.chains ? int64_t{way.panel_k} * tile.block_n * 4
                                         : int64_t{tile.block_n} * (2 * way.panel_k + 16));
}

bool stays(const Problem& p, const TallWay& way) { return p.k <= way.panel_k; }

// Blocks of a way that a multiprocessor holds; p is the problem whose A is the long operand.
int64_t fitting(const Problem& p, const TallWay& way, const DeviceInfo& device) {
  const TallTileInfo& tile = tall_tile(way.tile);
  const int64_t fit =
      device.shared_bytes_per_sm / (shared_bytes_of(way) + device.shared_bytes_reserved);
  return std::clamp<int64_t>(fit, 1,
                             is_plain(p, way) ? tile.plain_blocks_per_sm : tile.blocks_per_sm);
}

const StripCost& cost_of(const Problem& p, const TallWay& way) {
  const bool shifted = way.read == TallRead::Shifted;
  if (tall_tile(way.tile).chains) return shifted ? CHAINS_SHIFTED : CHAINS;
  return shifted ? FRAGMENTS_SHIFTED : is_plain(p, way) ? FRAGMENTS_PLAIN : FRAGMENTS;
}

double strip_cycles(const Problem& p, const TallWay& way) {
  const TallTileInfo& tile = tall_tile(way.tile);
  const StripCost& cost = cost_of(p, way);
  const double rows = tile.rows, columns = tile.block_n, k = static_cast<double>(p.k);
  const double steps = std::ceil(k / 16);
  const double vectors = way.read == TallRead::Shifted ? rows / 8 : rows / 32;  // of A, a k
  double cycles = cost.strip + std::ceil(k / tile.step_k) * cost.stage + steps * cost.step +
                  (tile.chains ? rows * columns * k / 1024 : steps * columns / 16) * cost.work +
                  k * (vectors + columns / 16) * cost.loads + rows * columns / 512 * cost.out;
  if (!tile.chains && way.read != TallRead::Shifted)
    cycles += std::max(0., steps - Model::NEAR_STEPS) * Model::FAR_STEP;
  if (way.read == TallRead::Elements) cycles += rows * k / 32 * Model::SINGLY;
  if (!p.epilogue.is_identity()) cycles += rows * columns / 32 * Model::EPILOGUE;
  return cycles;
}

// Those that the planner takes: others are right, but not what the rung is for.
constexpr int64_t MOST_COLUMNS = 4;  // tiles side by side
// Strips of a multiprocessor: with fewer there is no stream.
constexpr int64_t fewest_strips(const TallTileInfo& tile) { return tile.chains ? 24 : 8; }
constexpr double NOT_JUDGED = 1e15;

Estimate estimate(const Problem& problem, const DeviceInfo& device, const TallWay& way) {
  const Problem p = long_first(problem, way);
  const TallTileInfo& tile = tall_tile(way.tile);
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n);
  const double k = static_cast<double>(p.k), batch = static_cast<double>(p.batch);
  const double in = static_cast<double>(size_of(p.dtype));
  const double out = static_cast<double>(size_of(p.epilogue.out_dtype));
  const double columns = tall_columns(p, way);
  const double strips = static_cast<double>(strips_of(p, way)) * columns * batch;
  const double dram = Model::DRAM * device.memory_bandwidth / Model::CLOCK;
  const double chip = device.multiprocessors;
  Estimate e;
  e.memory = batch * (in * k * (m + n) + out * m * n) / dram +
             (columns - 1) * batch * in * m * k / (Model::L2 * chip);
  e.work = std::ceil(strips / chip) * strip_cycles(p, way);
  const double blocks = static_cast<double>(way.sharers) * columns * batch;
  const double slots = chip * static_cast<double>(fitting(p, way, device));
  const double waves = std::ceil(blocks / slots);
  const double turns = std::ceil(static_cast<double>(strips_of(p, way)) /
                                 (static_cast<double>(way.sharers) * tile.warps));
  const double panel = Model::PANEL + static_cast<double>(shared_bytes_of(way) - tile.rings_bytes) *
                                          Model::PANEL_BYTE;
  e.latency =
      waves * (turns * (std::ceil(k / tile.step_k) * Model::STAGE_LATENCY + Model::STRIP_LATENCY));
  e.cycles = Model::START + waves * panel + beside(beside(e.memory, e.work), e.latency);
  if (!stays(p, way) || columns > MOST_COLUMNS ||
      strips < static_cast<double>(fewest_strips(tile)) * chip)
    e.cycles += NOT_JUDGED;
  return e;
}

// The kernel's counters have 31 bits; a tile may reach beyond the end.
constexpr int64_t MOST = (int64_t{1} << 31) - 512;

bool supports(const Problem& problem, const DeviceInfo& device) {
  const bool chains = problem.arithmetic == Arithmetic::Fma && problem.dtype == DType::Float32;
  return (chains || problem.arithmetic == Arithmetic::Tensor) &&
         kernels_of(device).mma == Mma::All && problem.m <= MOST && problem.n <= MOST &&
         problem.k <= MOST && problem.batch <= MOST;
}

TallRead read_of(const Side& side) {
  const bool side_by_side = is_mn_major(side) ? side.rows <= 1 || side.row_stride == 1
                                              : side.k <= 1 || side.k_stride == 1;
  if (!side_by_side) return TallRead::Elements;
  return side.alignment == 16 ? TallRead::Sixteen : TallRead::Shifted;
}

// How many lanes stand side by side along a line, as bits: as many as copy a line's pieces.
int8_t lanes_of(const Side& side, TallRead read, const TallTileInfo& tile) {
  const int64_t bytes = tile.chains ? 4 : 2;
  int64_t length = tile.rows;
  if (!is_mn_major(side)) {
    length = std::min<int64_t>(side.k, tile.step_k);
    if (!tile.chains && read == TallRead::Sixteen) length = blocks_over(length, 16) * 16;
  }
  const int64_t before = read == TallRead::Shifted ? 16 - bytes : 0;
  const int64_t pieces = blocks_over(before + length * bytes, 16);
  int8_t bits = 0;
  while ((1 << bits) < pieces) ++bits;
  return bits;
}

template <typename Visit>
void for_each_way(const Problem& problem, const DeviceInfo& device, Visit visit) {
  const bool chains = problem.arithmetic == Arithmetic::Fma;
  for (const bool exchanged : {false, true}) {
    TallWay way{};
    way.exchanged = exchanged;
    const Problem p = long_first(problem, way);
    if (p.n > p.m) continue;
    const Side a = side_a(p);
    way.read = read_of(a);
    for (int t = 0; t < TALL_TILE_COUNT; ++t) {
      const TallTileInfo& tile = tall_tile(t);
      if (tile.chains != chains) continue;
      way.tile = static_cast<int8_t>(t);
      way.lanes = lanes_of(a, way.read, tile);
      // All of K, or as much as a block may have.
      const int64_t steps = blocks_over(p.k, int64_t{tile.step_k});
      way.panel_k = 0;
      const int64_t row = tile.block_n * (chains ? 4 : 2);  // bytes of one k
      const int64_t most = (device.shared_bytes_per_block - shared_bytes_of(way)) / row;
      if (most < tile.step_k) continue;
      way.panel_k = static_cast<int32_t>(std::min(steps, most / tile.step_k) * tile.step_k);
      const int64_t columns = blocks_over(p.n, int64_t{tile.block_n});
      if (saturating_product(columns, device.multiprocessors) > MAX_GRID_X / 2) continue;
      const int64_t slots = device.multiprocessors * fitting(p, way, device);
      const int64_t others = saturating_product(columns, p.batch);
      way.sharers = static_cast<int32_t>(std::clamp<int64_t>(
          slots / std::max<int64_t>(others, 1), 1, std::max<int64_t>(strips_of(p, way), 1)));
      way.in_flight = static_cast<int32_t>(std::min(p.batch, MAX_GRID_Y));
      visit(way);
    }
  }
}

// As what the other rungs estimate, which is compared with it: cycles of the chip, for fp32 of an
// H200's 1980 MHz. They know little of memory, and of what is long and thin they promise too much:
// on an H200 such a part of the time that they take.
double comparable(const Problem& problem, const DeviceInfo& device, double cycles) {
  constexpr double PROMISED = 0.7, PROMISED_CHAINS = 0.77, PROMISED_THIN = 0.55;
  constexpr double CHAINS_CLOCK = 1980e6;
  if (problem.arithmetic != Arithmetic::Fma)  // elsewhere it is async_mma's model, which knows
    return device.capability == 90 ? cycles * PROMISED : cycles;
  const bool thin = std::min(problem.m, problem.n) <= 16;
  return cycles * (thin ? PROMISED_THIN : PROMISED_CHAINS) * CHAINS_CLOCK / Model::CLOCK *
         scale_of(device).clock;
}

void ways(const Problem& problem, const DeviceInfo& device, Consider consider) {
  for_each_way(problem, device, [&](const TallWay& way) {
    consider(Way(way), comparable(problem, device, estimate(problem, device, way).cycles));
  });
}

Plan plan(const Problem& problem, const DeviceInfo&, const Way& way) {
  const TallWay chosen = way.as<TallWay>();
  const TallTileInfo& tile = tall_tile(chosen.tile);
  const Problem p = long_first(problem, chosen);
  Plan plan{};
  plan.algo = Algo::Tall;
  plan.way = way;
  plan.block_m = tile.rows * tile.warps, plan.block_n = tile.block_n, plan.block_k = tile.step_k;
  plan.tiles_m = blocks_over(p.m, int64_t{plan.block_m});
  plan.tiles_n = tall_columns(p, chosen);
  if (chosen.exchanged) {
    std::swap(plan.block_m, plan.block_n);
    std::swap(plan.tiles_m, plan.tiles_n);
  }
  if (problem.k == 0) {
    plan.add(sums_step(problem, sums_layout(problem, /*segments=*/0)));
    return plan;
  }
  Step step{};
  step.work = Work::Product;
  step.threads_x = tile.threads, step.threads_y = 1;
  step.grid_x = int64_t{tall_columns(p, chosen)} * chosen.sharers;
  step.grid_y = chosen.in_flight;
  step.shared_bytes = shared_bytes_of(chosen);
  step.dynamic = true;
  if (segment_count(p.k) > 1) {  // every thread's sums
    const int64_t sums = int64_t{tile.warps} * tile.rows * tile.block_n * 4;
    step.workspace_bytes = saturating_product(saturating_product(step.grid_x, step.grid_y), sums);
    plan.workspace_bytes = step.workspace_bytes;
  }
  plan.add(step);
  return plan;
}

const char* name_of(TallRead read) {
  switch (read) {
    case TallRead::Sixteen: return "by 16 bytes";
    case TallRead::Shifted: return "by 16 bytes, shifted";
    case TallRead::Elements: return "by elements";
  }
  return "?";
}

// In JSON:
//
//   tall  {exchanged, reads: "by 16 bytes" and the like, panel_k, bound,
//         estimates: [{tile, way, exchanged, memory, work, latency, cycles (of the call)}]}
Description describe(const Problem& problem, const DeviceInfo& device, const Plan& whole) {
  const TallWay way = whole.way.as<TallWay>();
  const TallTileInfo& tile = tall_tile(way.tile);
  const Problem p = long_first(problem, way);
  const Estimate chosen = estimate(problem, device, way);
  Description d;
  d.tile = tall_tile_name(way.tile);
  d.kernel = "tall<" + d.tile + ", " + element_type(problem.dtype) + ", " +
             (is_mn_major(side_a(p)) ? "1, " : "0, ") + (is_plain(p, way) ? "1" : "0") + ">";
  // A lane of tensor cores has a pair of columns in two rows of every 16 x 8.
  d.thread_m = tile.rows / 8, d.thread_n = tile.block_n / 4;
  if (way.exchanged) std::swap(d.thread_m, d.thread_n);
  d.lines.emplace_back("bound", chosen.bound());
  d.lines.emplace_back("reads", std::string(way.exchanged ? "B " : "A ") + name_of(way.read) +
                                    (stays(p, way) ? "" : "; the panel again and again"));
  std::vector<std::string> list;
  for_each_way(problem, device, [&](const TallWay& other) {
    const Estimate e = estimate(problem, device, other);
    const bool is_chosen = other.tile == way.tile && other.exchanged == way.exchanged;
    d.lines.emplace_back(is_chosen ? "estimate" : "rejected",
                         std::string(tall_tile_name(other.tile)) +
                             (other.exchanged ? ", exchanged: " : ": ") + grouped(e.cycles) +
                             " cycles; bound by " + e.bound() + ", " + grouped(e.memory) +
                             " of memory, " + grouped(e.work) + " of instructions");
    list.push_back(Object()
                       .text("tile", tall_tile_name(other.tile))
                       .text("way", tall_tile_name(other.tile))
                       .truth("exchanged", other.exchanged)
                       .real("memory", e.memory)
                       .real("work", e.work)
                       .real("latency", e.latency)
                       .real("cycles", e.cycles)
                       .str());
  });
  d.json.emplace_back("tall", Object()
                                  .truth("exchanged", way.exchanged)
                                  .text("reads", name_of(way.read))
                                  .count("panel_k", way.panel_k)
                                  .text("bound", chosen.bound())
                                  .json("estimates", array_of(list))
                                  .str());
  return d;
}

bool is(const Way& way, const NamedWay& name) {
  const TallWay chosen = way.as<TallWay>();
  return tall_tile_name(chosen.tile) == name.tile && chosen.exchanged == name.exchanged;
}

}  // namespace

extern const Rung TallRung = {Algo::Tall, &supports, &ways, &plan, &describe, &is};

}  // namespace tiled
