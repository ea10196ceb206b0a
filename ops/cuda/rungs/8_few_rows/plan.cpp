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
  static constexpr double START = 3800;  // launch, the first bytes' way, the end
  static constexpr double TILE = 530;    // the end of one, where others follow
  // More, of tiles of more than 64 columns, which a block's few warps store.
  static constexpr double wide_end(int columns) { return 30. * (columns - 40); }
  // Of an epilogue, one sum of a thread. By wgmma: side by side, with an activation of more than
  // one instruction, and one by one where the value before it is kept, which every thread then
  // stores for itself. By others: one by one.
  static constexpr double finish(FewRowsBy by, const Epilogue& epilogue) {
    if (by != FewRowsBy::Wgmma) return 340;
    if (epilogue.before.data != nullptr) return 600;
    const Activation activation = epilogue.activation;
    return activation == Activation::None || activation == Activation::Relu ? 30 : 80;
  }
  static constexpr double DRAM = 0.93;  // of the bandwidth that the device names
  static constexpr double AGAIN = 0.5;  // of a weight's bytes, that each further tile beside the
                                        // first does not find in L2
  static constexpr double AGAIN_OF_SEGMENTS = 0.1;  // the same of tiles that all run at once
  // From L2: for each multiprocessor, all of them at once; for one of them alone; and for two that
  // share a way. Where all read the same bytes, as they do Q's, these come at half the price.
  static constexpr double L2_BYTES_A_CYCLE = 104, ALONE_BYTES_A_CYCLE = 147;
  static constexpr double PAIR_BYTES_A_CYCLE = 61;
  static constexpr double SAME_BYTES = 0.5;
  // A step of 32 bytes of K, of one chain and what goes on around it, by its columns: with P along
  // K; along m or n, as one strip and as two; and from registers.
  static constexpr double wgmma(int columns) {
    return columns <= 16   ? 28.6
           : columns <= 32 ? 32.7
           : columns <= 48 ? 35.3
                           : std::max(40.4, 8 + columns / 2.);
  }
  static constexpr double wgmma_mn_major(int columns) {
    return columns <= 16   ? 36.3
           : columns <= 32 ? 37.4
           : columns <= 48 ? 43.1
                           : std::max(46., 14 + columns / 2.);
  }
  static constexpr double wgmma_two_strips(int columns) { return 44.9 + columns / 8. * 1.2; }
  static constexpr double wgmma_registers(int columns) { return 55 + columns / 4.; }
  // mma.sync of fp64: after one of its chain, after another; shared memory's time for a warp's rows
  // and columns.
  static constexpr double mma_chain(int columns) {
    return columns == 8 ? 30.6 : columns == 16 ? 32.6 : 38.3;
  }
  static constexpr double MMA_FP64 = 21.4;
  static constexpr double mma_shared(int columns) { return 1.03 * (4 + columns / 4); }
  // By lanes: a warp's instructions, and shared memory's time for them.
  static constexpr double lanes(int columns) { return 8 * (3.87 + 1.61 * columns); }
  static constexpr double lanes_shared(int columns) { return 8 * (1.14 + 0.53 * columns); }
  // By patches: multiply-adds, and loads of 16 bytes, which the few warps do not hide behind them.
  static constexpr double patches(int p, int q) { return 8 * (1.05 * p * q + 1.17 * (p + q)); }
  // Boxes of 64 bytes along m or n, half a line of memory: the other half is the same tile's, or
  // another block's.
  static constexpr double HALF_LINES = 1.116, HALF_LINES_APART = 1.26;
  // Of memory's time and the chains': how sharply the longer decides, for a block's only tile and
  // for tiles in turn; and how much more than it both together can take.
  static constexpr double ONE_TILE = 2.13, IN_TURN = 2.7, MOST_BESIDE = 3600;
  // Of copies before it; and of an operand that one of them transposes.
  static constexpr double REPACK_KERNEL = 6000, REPACK_CYCLES_A_BYTE = 1.5e-3;
  static constexpr double TRANSPOSE_CYCLES_AN_ELEMENT = 6e-3;
};

constexpr int USUAL_WIDEST = 64;                   // columns of a tile
constexpr int64_t NARROW_ROWS = 32;                // of P for each block
constexpr int64_t MOST_NARROW = 4, MOST_WIDE = 8;  // tiles along Q
constexpr int64_t MOST_OF_CHAINS = 8;              // the same of segments that are shared out

struct Estimate {
  double memory, chain, start;  // cycles
  double cycles;                // of the whole call

  const char* bound() const {
    return start > std::max(memory, chain) ? "start and end" : chain > memory ? "chain" : "memory";
  }
};

// Of 32 bytes of K: a chain's latency, or what its warps' instructions and loads take.
double step_cycles(const FewRowsPlan& plan, bool mn_major) {
  const FewRowsTileInfo& tile = few_rows_tile(plan.tile);
  switch (tile.by) {
    case FewRowsBy::Wgmma:
      return !mn_major                            ? Model::wgmma(tile.columns)
             : plan.strip < 64 && plan.height > 1 ? Model::wgmma_two_strips(tile.columns)
                                                  : Model::wgmma_mn_major(tile.columns);
    case FewRowsBy::Registers: return Model::wgmma_registers(tile.columns);
    case FewRowsBy::Mma: {
      const double in_turn = std::ceil(tile.warps / 4.);  // four tensor cores
      return std::max({Model::mma_chain(tile.columns), in_turn * tile.columns / 8 * Model::MMA_FP64,
                       tile.warps * Model::mma_shared(tile.columns)});
    }
    case FewRowsBy::Patches: return Model::patches(tile.patch_p, tile.patch_q);
    case FewRowsBy::Lanes: break;
  }
  return std::max(Model::lanes(tile.columns), tile.warps * Model::lanes_shared(tile.columns));
}

// What reading P takes more than its bytes do.
double half_lines(const FewRowsPlan& plan, bool mn_major, int64_t bytes) {
  if (!mn_major || plan.strip * bytes >= 128) return 1;
  return plan.height == 2 ? Model::HALF_LINES : Model::HALF_LINES_APART;
}

// Cycles of what goes on at once.
double beside(double memory, double chain, double power) {
  const double both = std::pow(std::pow(memory, power) + std::pow(chain, power), 1 / power);
  return std::min(both, std::max(memory, chain) + Model::MOST_BESIDE);
}

Estimate estimate(const Problem& problem, const DeviceInfo& device, const FewRowsPlan& plan) {
  const FewRowsTileInfo& tile = few_rows_tile(plan.tile);
  const FewRowsLayout l = few_rows_layout(problem, plan, nullptr);
  const int64_t bytes = size_of(problem.dtype);
  const double row = static_cast<double>(depth_of(problem, plan) * bytes);  // of a tile
  const double segments = static_cast<double>(segments_of(problem, plan));
  const double row_of_p = row * half_lines(plan, is_mn_major(l.sides.p), bytes);
  const double rows = static_cast<double>(l.sides.p.rows);
  const double tiles = static_cast<double>(std::max<int64_t>(1, units_of(problem, plan)));
  const double turns = std::ceil(tiles / plan.blocks);
  const double columns = static_cast<double>(columns_of(problem, plan));
  double weight =
      row_of_p * rows * segments * static_cast<double>(entries_of(l.sides.p, problem.batch));
  // Where C is small in both directions, Q is no little thing beside it.
  if (plan.share_segments)
    weight += row * static_cast<double>(l.sides.q.rows) * segments *
              static_cast<double>(entries_of(l.sides.q, problem.batch));
  const double dram = Model::DRAM * device.memory_bandwidth / Model::CLOCK;  // bytes a cycle
  // What all blocks read, and one of them, in so many turns.
  const double of_q = Model::SAME_BYTES * row * tile.block_q;  // for a tile
  const double all_p = row_of_p * rows * segments * static_cast<double>(problem.batch) * columns;
  const double tile_p = std::min(plan.height * plan.strip * row_of_p, all_p);
  // Tiles of the same rows of P, neighbours, read these together. A block with a strip more has its
  // way beside one without, as long as there are no more of them than ways.
  const FewRowsStrips strips = strips_of(plan, l.sides.p.rows);
  const double ways = device.multiprocessors / 2;
  const bool beside_less = turns == 1 && strips.odd > 0 && strips.odd <= ways;
  const double pair_p = columns > 1   ? tile_p
                        : beside_less ? 2 * tile_p - plan.strip * row_of_p
                                      : 2 * tile_p;
  const double again = plan.share_segments ? Model::AGAIN_OF_SEGMENTS : Model::AGAIN;
  // So many of the tiles at once, turn after turn.
  const auto memory = [&](double count, double blocks, double in_turn) {
    const double share = count / tiles;
    return std::max(
        {weight * (1 + again * (columns - 1)) * share / dram,
         (all_p + tiles * of_q) * share / (Model::L2_BYTES_A_CYCLE * device.multiprocessors),
         in_turn * (tile_p + of_q) / Model::ALONE_BYTES_A_CYCLE,
         blocks > ways ? in_turn * pair_p / Model::PAIR_BYTES_A_CYCLE : 0});
  };

  Estimate e;
  e.start = Model::START;
  if (l.copies.count() > 0)
    e.start +=
        Model::REPACK_KERNEL + Model::REPACK_CYCLES_A_BYTE * static_cast<double>(l.copies.bytes());
  if (const Side q = sides_of(problem, plan.exchanged).q; plan.repack_q && is_mn_major(q))
    e.start += Model::TRANSPOSE_CYCLES_AN_ELEMENT * static_cast<double>(q.rows) *
               static_cast<double>(q.k) * static_cast<double>(entries_of(q, problem.batch));
  // Rounds in which every block has a tile, and one in which some have.
  const double chain = row / 32 * step_cycles(plan, is_mn_major(l.sides.p));
  const double rounds = std::floor(tiles / plan.blocks), rest = tiles - rounds * plan.blocks;
  const double of_rounds = memory(tiles - rest, plan.blocks, rounds);
  const double of_rest = rest > 0 ? memory(rest, rest, 1) : 0;
  e.memory = of_rounds + of_rest;
  e.chain = turns * chain;
  double at_once = beside(of_rounds, rounds * chain, rounds > 1 ? Model::IN_TURN : Model::ONE_TILE);
  if (rest > 0) at_once += beside(of_rest, chain, Model::ONE_TILE);
  e.cycles = e.start + (turns - 1 + (columns > 1)) * Model::TILE + at_once;
  if (tile.block_q > USUAL_WIDEST) e.cycles += Model::wide_end(tile.block_q);
  if (plan.share_segments)
    e.cycles += sums_seconds(problem, device) * Model::CLOCK;
  else if (!problem.epilogue.is_identity())
    e.cycles += turns * Model::finish(tile.by, problem.epilogue) * tile.block_p * tile.block_q /
                (32. * tile.warps);
  return e;
}

bool supports(const Problem& problem, const DeviceInfo& device) {
  // More than with any tile.
  const int64_t tiles = saturating_product(
      saturating_product(blocks_over(problem.m, 8), blocks_over(problem.n, 8)), problem.batch);
  const bool chains = problem.arithmetic == Arithmetic::Fma &&
                      (problem.dtype == DType::Float64 || problem.dtype == DType::Float32);
  return (is_of_wgmma(problem.arithmetic) || chains) && device.hopper_kernels &&
         sizes_fit_tma(problem) && tiles <= MOST_OF_TMA;
}

bool multiplies(FewRowsBy by, const Problem& problem) {
  if (problem.arithmetic != Arithmetic::Fma)
    return by == FewRowsBy::Wgmma ||
           (by == FewRowsBy::Registers && problem.arithmetic == Arithmetic::Tf32);
  if (problem.dtype == DType::Float64) return by == FewRowsBy::Mma;
  return by == FewRowsBy::Lanes || by == FewRowsBy::Patches;
}

// The ways to share out P among `room` blocks in strips of so many rows, of tiles up to `most`
// strips: as evenly as can be; in tiles of one strip, that blocks take in turn; and where P is
// small, by fewer blocks, which read less of Q.
template <typename Visit>
void for_shares(FewRowsPlan plan, int64_t rows, int64_t room, int strip, int most, Visit visit) {
  const int64_t strips = std::max<int64_t>(1, blocks_over(rows, strip));
  const auto share = [&](int64_t sharers, int64_t rounds) {
    plan.strip = static_cast<int8_t>(strip);
    plan.sharers = static_cast<int32_t>(sharers), plan.rounds = static_cast<int32_t>(rounds);
    plan.height = static_cast<int8_t>(strips_of(plan, rows).most());
    visit(plan);
  };
  const int64_t sharers = std::min(strips, room);
  const int64_t least = blocks_over(strips, sharers);
  if (most == 1)
    share(strips, 1);
  else
    share(sharers, blocks_over(least, most));
  for (int height = 2; height <= most; height *= 2)
    if (height > least) share(blocks_over(strips, height), 1);
}

template <typename Visit>
void for_few_rows_plans(const Problem& problem, const DeviceInfo& device, FewRowsBy by,
                        bool exchanged, bool share, Visit visit) {
  const int bytes = static_cast<int>(size_of(problem.dtype));
  const Sides sides = sides_of(problem, exchanged);
  FewRowsPlan plan{};
  plan.exchanged = exchanged;
  plan.share_segments = share;
  plan.repack_p = by == FewRowsBy::Wgmma ? !tma_reads(sides.p, problem) : !is_mappable(sides.p);
  plan.repack_q = !is_mappable(sides.q) || (!takes_any_q(by) && is_mn_major(sides.q));
  const bool mn_major = is_mn_major(few_rows_layout(problem, plan, nullptr).sides.p);
  if (by == FewRowsBy::Registers && !mn_major) return;
  // The narrowest that hold Q, or the widest. Tiles stand in the order of their width.
  int widest = 0;
  for (int t = 0; t < FEW_ROWS_TILE_COUNT; ++t)
    if (few_rows_tile(t).by == by && (widest == 0 || widest < sides.q.rows))
      widest = few_rows_tile(t).block_q;
  for (int t = 0; t < FEW_ROWS_TILE_COUNT; ++t) {
    const FewRowsTileInfo& tile = few_rows_tile(t);
    if (tile.by != by || tile.block_q > widest) continue;
    plan.tile = static_cast<int8_t>(t);
    const int64_t columns = columns_of(problem, plan);
    const int64_t beside = std::max<int64_t>(
        1,
        saturating_product(saturating_product(columns, problem.batch), segments_of(problem, plan)));
    const int64_t room = std::max<int64_t>(1, device.multiprocessors / beside);
    // Others than the usual one, several beside each other: narrower ones where the multiprocessors
    // are not needed for P, wider ones where each has a tile of them at the most.
    const int usual = std::min(widest, USUAL_WIDEST);
    const bool narrow = share || (is_of_wgmma(by) && sides.p.rows <= room * NARROW_ROWS);
    const int64_t most = share && !is_of_wgmma(by) ? MOST_OF_CHAINS : MOST_NARROW;
    if (tile.block_q < usual && (!narrow || columns > most)) continue;
    if (tile.block_q > usual && (sides.p.rows > room * tile.block_p || columns > MOST_WIDE))
      continue;
    const auto visit_plan = [&](FewRowsPlan found) {
      const int64_t tiles = std::max<int64_t>(1, units_of(problem, found));
      if (tiles > MOST_OF_TMA) return;
      found.blocks = static_cast<int32_t>(std::min<int64_t>(tiles, device.multiprocessors));
      visit(found);
    };
    // Along K a strip is a swizzle's pattern; along m or n a box, of 128 bytes, or of 64 where
    // wgmma reads 16 bits.
    if (!mn_major)
      for_shares(plan, sides.p.rows, room, 8, tile.block_p / 8, visit_plan);
    else
      for (int strip = 128 / bytes; strip >= (is_of_wgmma(by) ? 32 : 128 / bytes); strip /= 2)
        for_shares(plan, sides.p.rows, room, strip, tile.block_p / strip, visit_plan);
  }
}

template <typename Visit>
void for_few_rows_plans(const Problem& problem, const DeviceInfo& device, Visit visit) {
  // The last segment is taken for a whole one, and its end is a coordinate of TMA's.
  const bool may_share = may_share_segments(problem) && problem.k <= MOST_OF_TMA - SEGMENT_K;
  for (const bool exchanged : {false, true}) {
    const Sides sides = sides_of(problem, exchanged);
    if (sides.q.rows > sides.p.rows) continue;
    for (const FewRowsBy by : {FewRowsBy::Wgmma, FewRowsBy::Registers, FewRowsBy::Mma,
                               FewRowsBy::Lanes, FewRowsBy::Patches})
      for (int share = 0; share <= may_share; ++share)
        if (multiplies(by, problem) && (has_totals(by) || share || segment_count(problem.k) < 2))
          for_few_rows_plans(problem, device, by, exchanged, share, visit);
  }
}

// Estimates of fp32's chains are compared with register_tile's, which count cycles of 1980 MHz. (So
// do fp64's, but those leave out the launch, which is as much.)
double comparable(const FewRowsPlan& plan, double cycles) {
  // Where segments are not shared out patches have not been judged beside register_tile.
  if (few_rows_tile(plan.tile).by == FewRowsBy::Patches && !plan.share_segments)
    return BY_NAME_ONLY;
  return is_by_lanes(few_rows_tile(plan.tile).by) ? cycles * 1980e6 / Model::CLOCK : cycles;
}

void ways(const Problem& problem, const DeviceInfo& device, Consider consider) {
  for_few_rows_plans(problem, device, [&](const FewRowsPlan& plan) {
    consider(Way(plan), comparable(plan, estimate(problem, device, plan).cycles));
  });
}

Plan plan(const Problem& problem, const DeviceInfo&, const Way& way) {
  const FewRowsPlan choice = way.as<FewRowsPlan>();
  const FewRowsTileInfo& tile = few_rows_tile(choice.tile);
  const int rows = choice.strip * choice.height;  // of the highest tile
  Plan plan = tma_plan(Algo::FewRows, problem, choice.exchanged ? tile.block_q : rows,
                       choice.exchanged ? rows : tile.block_q, way);
  (choice.exchanged ? plan.tiles_n : plan.tiles_m) = int64_t{choice.sharers} * choice.rounds;
  plan.block_k *= tile.boxes;
  if (problem.k == 0) {
    add_zeros(plan, problem);
    return plan;
  }
  const FewRowsLayout layout = few_rows_layout(problem, choice, nullptr);
  add_copies(plan, layout.copies, problem);
  plan.add(product_step(tile.threads, choice.blocks, tile.shared_bytes(rows)));
  if (choice.share_segments) add_sums_step(plan, problem, layout.sums);
  return plan;
}

// Such as "Few8 132x2 of 8": tiles beside each other, and after each other, of an entry's P; the
// rows of a strip.
std::string name_of(const FewRowsPlan& plan) {
  return std::string(few_rows_tile_name(plan.tile)) + " " + std::to_string(plan.sharers) + "x" +
         std::to_string(plan.rounds) + " of " + std::to_string(plan.strip);
}

// Of the kernel's class.
const char* name_of(FewRowsBy by) {
  switch (by) {
    case FewRowsBy::Wgmma: return "Wgmma";
    case FewRowsBy::Registers: return "Registers";
    case FewRowsBy::Mma: return "Doubles";
    case FewRowsBy::Patches: return "Patches";
    case FewRowsBy::Lanes: break;
  }
  return "Lanes";
}

std::string text_of(const FewRowsPlan& plan, const Estimate& e) {
  return name_of(plan) + (plan.share_segments ? ", segments shared out: " : ": ") +
         grouped(e.cycles) + " cycles; " + grouped(e.memory) + " of memory, " + grouped(e.chain) +
         " of the chain, " + grouped(e.start) + " of start and end";
}

// In JSON:
//
//   few_rows  {exchanged, share_segments, repack_a, repack_b, bound: "memory", "chain" or
//             "start and end", estimates: [{tile, way, exchanged, share_segments, memory, chain,
//             start, cycles (of the call)}]}
Description describe(const Problem& problem, const DeviceInfo& device, const Plan& whole) {
  const FewRowsPlan plan = whole.way.as<FewRowsPlan>();
  const FewRowsTileInfo& tile = few_rows_tile(plan.tile);
  const Sides sides = few_rows_layout(problem, plan, nullptr).sides;
  const Estimate e = estimate(problem, device, plan);
  Description d;
  d.tile = few_rows_tile_name(plan.tile);
  const bool lanes = is_by_lanes(tile.by);
  std::string work = "FewRowsBy" + std::string(name_of(tile.by)) + "<" + d.tile;
  if (tile.by == FewRowsBy::Wgmma) work += ", " + wgmma_type(problem.dtype);
  work += is_mn_major(sides.p) ? ", 1" : ", 0";
  if (takes_any_q(tile.by)) work += is_mn_major(sides.q) ? ", 1" : ", 0";
  d.kernel = "few_rows<" + work + ">>";
  // A lane of tensor cores has a pair of columns in two rows of every 16 x 8.
  d.thread_m = lanes ? tile.patch_p : 2, d.thread_n = lanes ? tile.patch_q : tile.columns / 4;
  if (plan.exchanged) std::swap(d.thread_m, d.thread_n);
  d.lines.emplace_back("bound", e.bound());
  const bool repack_a = plan.exchanged ? plan.repack_q : plan.repack_p;
  const bool repack_b = plan.exchanged ? plan.repack_p : plan.repack_q;
  if (repack_a || repack_b)
    d.lines.emplace_back("repacks", repack_a && repack_b ? "A and B" : repack_a ? "A" : "B");
  std::vector<std::string> list;
  for_few_rows_plans(problem, device, [&](const FewRowsPlan& other) {
    const Estimate found = estimate(problem, device, other);
    const bool chosen = name_of(other) == name_of(plan) && other.exchanged == plan.exchanged &&
                        other.share_segments == plan.share_segments;
    d.lines.emplace_back(chosen ? "estimate" : "rejected", text_of(other, found));
    list.push_back(Object()
                       .text("tile", few_rows_tile_name(other.tile))
                       .text("way", name_of(other))
                       .truth("exchanged", other.exchanged)
                       .truth("share_segments", other.share_segments)
                       .real("memory", found.memory)
                       .real("chain", found.chain)
                       .real("start", found.start)
                       .real("cycles", found.cycles)
                       .str());
  });
  d.json.emplace_back("few_rows", Object()
                                      .truth("exchanged", plan.exchanged)
                                      .truth("share_segments", plan.share_segments)
                                      .truth("repack_a", repack_a)
                                      .truth("repack_b", repack_b)
                                      .text("bound", e.bound())
                                      .json("estimates", array_of(list))
                                      .str());
  return d;
}

bool is(const Way& way, const NamedWay& name) {
  const FewRowsPlan plan = way.as<FewRowsPlan>();
  return name_of(plan) == name.tile && plan.exchanged == name.exchanged &&
         plan.share_segments == name.share_segments;
}

}  // namespace

extern const Rung FewRowsRung = {Algo::FewRows, &supports, &ways, &plan, &describe, &is};

}  // namespace tiled
