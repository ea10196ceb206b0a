// Rung few_rows as the planner sees it: the operand of fewer rows on the side of columns, and each
// tile that just holds it.
#include "cuda/engine/few_rows/plan.h"

#include <algorithm>

#include "cuda/plan/describe.h"
#include "cuda/plan/kernel_name.h"
#include "cuda/plan/tma.h"

namespace tiled {
namespace {

// Tiles along Q, narrower than need be, that may be fewer columns in all than wider ones.
constexpr int64_t MOST_NARROW = 4;

// The sums of a problem's tree that wait at once where a block goes through all of its leaves: more
// than any thread has room for where more rows than few are better off with leaves' products.
int64_t waiting_of(const Problem& problem) {
  constexpr int64_t FEW = 64;
  return std::min(problem.m, problem.n) > FEW ? MOST_LEAVES : waiting_beyond(0, problem).most;
}

// The kernels' arguments have room for so many leaves, which are shared out, or a block's. A weight
// of tf32 along m or n is for tiles that sum no tree.
bool sums_trees(const Problem& problem) {
  const Side weight = sides_of(problem, problem.m < problem.n).p;
  if (problem.arithmetic == Arithmetic::Tf32 && is_mn_major(weight)) return false;
  return chain_count(problem) <= MOST_LEAVES &&
         (may_split_k(problem) || waiting_of(problem) <= few_rows_waiting(FewRowsBy::Wgmma, 8));
}

bool supports(const Problem& problem, const DeviceInfo& device) {
  // More than with any tile.
  const int64_t tiles = saturating_product(
      saturating_product(blocks_over(problem.m, 8), blocks_over(problem.n, 8)), problem.batch);
  const bool chains = problem.arithmetic == Arithmetic::Fma &&
                      (problem.dtype == DType::Float64 || problem.dtype == DType::Float32);
  return (is_of_wgmma(problem.arithmetic) || chains) && device.hopper_kernels &&
         sizes_fit_tma(problem) && tiles <= MOST_OF_TMA &&
         (problem.leaf == 0 || sums_trees(problem));
}

bool multiplies(FewRowsBy by, const Problem& problem) {
  if (problem.arithmetic != Arithmetic::Fma)
    return by == FewRowsBy::Wgmma ||
           by == (problem.arithmetic == Arithmetic::Tf32 ? FewRowsBy::Registers : FewRowsBy::Warps);
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
    plan.height = static_cast<int8_t>(few_rows_strips(plan, rows).most());
    visit(plan);
  };
  int64_t sharers = std::min(strips, room);
  const int64_t least = blocks_over(strips, sharers);
  if (most == 1)
    share(strips, 1);
  else
    share(sharers, blocks_over(least, most));
  for (int height = 2; height <= most; height *= 2) {
    const int64_t fewer = blocks_over(strips, height);
    if (height <= least || fewer == sharers) continue;
    sharers = fewer;
    share(sharers, 1);
  }
}

void ways_by(const Problem& problem, const DeviceInfo& device, FewRowsBy by, bool swap_ab,
             bool share, Visit visit) {
  const int bytes = static_cast<int>(size_of(problem.dtype));
  const Sides sides = sides_of(problem, swap_ab);
  FewRowsPlan plan{};
  plan.swap_ab = swap_ab;
  plan.split_k = share;
  const bool reads_p = by == FewRowsBy::Wgmma ? tma_reads(sides.p, problem) : is_mappable(sides.p);
  const bool reads_q = is_mappable(sides.q) && (takes_any_q(by) || !is_mn_major(sides.q));
  plan.copy_p = repacked_to(sides.p, problem.dtype, !reads_p);
  plan.copy_q = reads_q ? CopyTo::Nothing : CopyTo::AlongK;
  const bool mn_major = is_mn_major(copied(sides.p, problem.dtype, plan.copy_p));
  if (by == FewRowsBy::Registers && (!mn_major || problem.leaf > 0)) return;
  // A block goes through one chain, or all that K has.
  const int64_t chains = chain_count(problem), waiting = problem.leaf > 0 ? waiting_of(problem) : 0;
  const auto takes = [&](const FewRowsTileInfo& tile) {
    if (tile.by != by) return false;
    if (problem.leaf > 0) return share || waiting <= few_rows_waiting(by, tile.columns);
    return share || has_totals(by) || chains < 2;
  };
  // The narrowest that hold Q, or the widest. Tiles stand in the order of their width.
  int widest = 0;
  for (int t = 0; t < FEW_ROWS_TILE_COUNT; ++t)
    if (takes(few_rows_tile(t)) && (widest == 0 || widest < sides.q.rows))
      widest = few_rows_tile(t).block_q;
  for (int t = 0; t < FEW_ROWS_TILE_COUNT; ++t) {
    const FewRowsTileInfo& tile = few_rows_tile(t);
    if (!takes(tile) || tile.block_q > widest) continue;
    plan.tile = static_cast<int8_t>(t);
    const int64_t columns = columns_of(problem, plan);
    const int64_t beside = std::max<int64_t>(
        1,
        saturating_product(saturating_product(columns, problem.batch), segments_of(problem, plan)));
    const int64_t room = std::max<int64_t>(1, device.multiprocessors / beside);
    // Narrower tiles are also worth it where all blocks run at once: the product then takes as long
    // as one of them, and a chain of a long K is shorter in a warp that has fewer others.
    const bool runs_at_once = saturating_product(beside, blocks_over(sides.p.rows, tile.block_p)) <=
                              device.multiprocessors;
    if (tile.block_q < widest && columns > MOST_NARROW && !runs_at_once) continue;
    const auto visit_plan = [&](FewRowsPlan found) {
      const int64_t tiles = std::max<int64_t>(1, few_rows_units(problem, found));
      if (tiles > MOST_OF_TMA) return;
      found.blocks = static_cast<int32_t>(std::min<int64_t>(tiles, device.multiprocessors));
      visit(Way(found));
    };
    // Along K a strip is a swizzle's pattern; along m or n a box, of 128 bytes, or of 64 where
    // tensor cores take 16 bits; by warps the whole tile is one.
    if (!mn_major)
      for_shares(plan, sides.p.rows, room, 8, tile.block_p / 8, visit_plan);
    else if (by == FewRowsBy::Warps)
      for_shares(plan, sides.p.rows, room, tile.block_p, 1, visit_plan);
    else
      for (int strip = 128 / bytes; strip >= (has_low_tiles(by) ? 32 : 128 / bytes); strip /= 2)
        for_shares(plan, sides.p.rows, room, strip, tile.block_p / strip, visit_plan);
  }
}

void ways(const Problem& problem, const DeviceInfo& device, Visit visit) {
  // The last segment is taken for a whole one, and its end is a coordinate of TMA's.
  const bool may_share = may_split_k(problem) && problem.k <= MOST_OF_TMA - SEGMENT_K;
  for (const bool swap_ab : {false, true}) {
    const Sides sides = sides_of(problem, swap_ab);
    if (sides.q.rows > sides.p.rows) continue;
    for (const FewRowsBy by : {FewRowsBy::Wgmma, FewRowsBy::Registers, FewRowsBy::Warps,
                               FewRowsBy::Mma, FewRowsBy::Lanes, FewRowsBy::Patches})
      for (int share = 0; share <= may_share; ++share)
        if (multiplies(by, problem)) ways_by(problem, device, by, swap_ab, share, visit);
  }
}

// In the order of FewRowsTiles.
std::vector<std::string> variants() { return variants_of(FewRowsTiles()); }

Plan plan(const Problem& problem, const DeviceInfo&, const Way& way) {
  const FewRowsPlan choice = way.as<FewRowsPlan>();
  const FewRowsTileInfo& tile = few_rows_tile(choice.tile);
  const int rows = choice.strip * choice.height;  // of the highest tile
  Plan plan = plan_of(Algo::FewRows, way, problem, choice.swap_ab, rows, tile.block_q,
                      tma_step(problem) * tile.boxes);
  (choice.swap_ab ? plan.tiles_n : plan.tiles_m) = int64_t{choice.sharers} * choice.rounds;
  plan.copy_p = choice.copy_p, plan.copy_q = choice.copy_q;
  if (problem.k == 0) {
    add_sums(plan, problem);
    return plan;
  }
  add_copies(plan, problem);
  const Step product = product_step(tile.threads, choice.blocks, tile.shared_bytes(rows));
  if (choice.split_k)
    add_with_sums(plan, product, problem);
  else
    plan.add_with_totals(product, 0);
  const Sides read = sides_of(problem_as_read(problem, plan), choice.swap_ab);
  plan.demand =
      demand_of(problem, read, rows, tile.block_q, choice.tile, /*resident=*/1, choice.split_k);
  plan.demand.filled = static_cast<double>(rows) / tile.block_p;
  // Tiles are of `height` strips or one fewer, so that there are as many as blocks ask for.
  plan.demand.units *= static_cast<double>(int64_t{choice.sharers} * choice.rounds) /
                       static_cast<double>(blocks_over(read.p.rows, rows));
  return plan;
}

// The name of the kernel's class.
const char* name_of(FewRowsBy by) {
  switch (by) {
    case FewRowsBy::Wgmma: return "Wgmma";
    case FewRowsBy::Registers: return "Registers";
    case FewRowsBy::Warps: return "Warps";
    case FewRowsBy::Mma: return "Doubles";
    case FewRowsBy::Patches: return "Patches";
    case FewRowsBy::Lanes: break;
  }
  return "Lanes";
}

// In JSON:
//
//   few_rows  {swap_ab, split_k, repack_a, repack_b}
Description describe(const Problem& problem, const DeviceInfo&, const Plan& whole) {
  const FewRowsPlan plan = whole.way.as<FewRowsPlan>();
  const FewRowsTileInfo& tile = few_rows_tile(plan.tile);
  const Sides sides = sides_of(problem_as_read(problem, whole), plan.swap_ab);
  Description d;
  d.tile = few_rows_tile_name(plan.tile);
  const bool lanes = is_by_lanes(tile.by);
  std::string work = "FewRowsBy" + std::string(name_of(tile.by)) + "<" + d.tile;
  if (tile.by == FewRowsBy::Wgmma || tile.by == FewRowsBy::Warps)
    work += ", " + wgmma_type(problem);
  work += problem.leaf > 0 ? ", 1" : ", 0";
  work += is_mn_major(sides.p) ? ", 1" : ", 0";
  if (takes_any_q(tile.by)) work += is_mn_major(sides.q) ? ", 1" : ", 0";
  d.kernel = "few_rows<" + work + ">>";
  // A lane of tensor cores has a pair of columns in two rows of every 16 x 8.
  d.thread_m = lanes ? tile.thread_tile_p : 2,
  d.thread_n = lanes ? tile.thread_tile_q : tile.columns / 4;
  const auto [repack_a, repack_b] = copied_operands(whole);
  if (const char* const repacked = names_of_operands(repack_a, repack_b))
    d.lines.emplace_back("repacks", repacked);
  d.json.emplace_back("few_rows", Object()
                                      .truth("swap_ab", plan.swap_ab)
                                      .truth("split_k", plan.split_k)
                                      .truth("repack_a", repack_a)
                                      .truth("repack_b", repack_b)
                                      .str());
  return d;
}

// Such as "Few8 132x2 of 8": tiles beside each other, and after each other, of an entry's P; the
// rows of a strip.
NamedWay name(const Problem&, const Way& way) {
  const FewRowsPlan chosen = way.as<FewRowsPlan>();
  const std::string tile = std::string(few_rows_tile_name(chosen.tile)) + " " +
                           std::to_string(chosen.sharers) + "x" + std::to_string(chosen.rounds) +
                           " of " + std::to_string(chosen.strip);
  return named_way(tile, chosen.swap_ab, chosen.split_k);
}

}  // namespace

extern const Rung FewRowsRung = {Algo::FewRows, Use::Chosen, &supports, &ways,      &plan,
                                 &describe,     &name,       &variants, TAKES_TREES};

}  // namespace tiled
