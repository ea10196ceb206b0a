// Rung hopper as the planner sees it: every tile, either operand on wgmma's side of 64 rows, five
// clusters, segments shared out or not.
#include "cuda/engine/hopper/plan.h"

#include <algorithm>
#include <utility>

#include "core/sum_tree.h"
#include "cuda/plan/copies.h"
#include "cuda/plan/describe.h"
#include "cuda/plan/sums.h"
#include "cuda/plan/tma.h"

namespace tiled {
namespace {

// Whether the kernel can read P by TMA where it lies; some tiles take it from registers, but for
// groups.
bool is_ready_p(const Side& side, const Problem& problem, const HopperTileInfo& tile) {
  return tma_reads(side, problem) ||
         (problem.arithmetic == Arithmetic::Tf32 && is_mappable(side) && !is_grouped(problem) &&
          reads_by_registers(tile.group_p, tile.block_q, tile.consumers));
}

// How an operand is copied that the kernel cannot read where it is. A box begins at a multiple of
// 16 bytes (an H100 calls other places an illegal instruction), and a group anywhere. So what
// groups share out becomes contiguous along the other index, or, where wgmma reads it along K, with
// spaces.
CopyTo copy_of(const Side& side, const Problem& problem, bool is_ready) {
  if (problem.groups.shared == Shared::K && lies_along_k(problem)) return CopyTo::Spaced;
  if (problem.groups.shared == Shared::K) return is_ready ? CopyTo::Nothing : CopyTo::AlongRows;
  if (side.is_shared) return is_ready ? CopyTo::Nothing : CopyTo::AlongK;
  return repacked_to(side, problem.dtype, !is_ready);
}
// A Q that is contiguous along K is cut into parts of whole groups of eight rows where a cluster
// shares it.
bool parts_fit(const HopperPlan& plan, bool p_mn_major, bool q_mn_major) {
  const HopperTileInfo& tile = hopper_tile(plan.tile);
  return (p_mn_major || tile.block_p % (8 * plan.cluster_q) == 0) &&
         (q_mn_major || tile.block_q % (8 * plan.cluster_p) == 0);
}

// How many of so many places clusters of split-K take: the tiles of a segment read the same rows,
// and do so together where they are in one round.
int64_t places_for(const Units& units, int64_t places) {
  const int64_t tiles = saturating_product(units.clusters_p, units.clusters_q);
  const int64_t aligned = places / tiles * tiles;
  const bool as_soon =
      aligned > 0 && blocks_over(units.count, aligned) == blocks_over(units.count, places);
  return as_soon ? aligned : places;
}

// The fewest clusters that take as many waves for so many units as clusters in all places do. Every
// one of them then works to the end, and the other multiprocessors are free for what runs beside.
int64_t fewest_places(int64_t units, int64_t places) {
  return units == 0 ? 0 : blocks_over(units, blocks_over(units, places));
}

// Whether there are kernels of the tile for such a problem.
bool has_kernels(const HopperTileInfo& tile, const Problem& problem) {
  // A consumer of two strips has no registers for scales of blocks.
  if (is_blockwise(problem.scales) && tile.group_p > 64) return false;
  if (is_scaled(problem)) return is_grouped(problem) ? tile.of_scaled_groups : tile.of_scaled;
  if (is_grouped(problem)) return tile.of_groups;
  if (problem.leaf > 0) return tile.of_trees;
  return !tile.only_bytes || size_of(problem.dtype) == 1;
}

constexpr std::pair<int, int> CLUSTERS[] = {{1, 1}, {2, 1}, {1, 2}, {4, 1}, {1, 4}};

void ways(const Problem& problem, const DeviceInfo& device, Visit visit) {
  const bool may_share = may_split_k(problem) && problem.batch <= MAX_GRID_Y;
  for (const bool swap_ab : {false, true}) {
    const Sides sides = sides_of(problem, swap_ab);
    const bool by_tma = stores_by_tma(problem, sides, sides.c_p, sides.c_q, problem.c.alignment);
    for (int t = 0; t < HOPPER_TILE_COUNT; ++t) {
      const HopperTileInfo& tile = hopper_tile(t);
      if (!has_kernels(tile, problem)) continue;
      // A group's K may be short, and then an input that is added takes longer than the products.
      // Tiles in turn have registers for four of its elements at a time: on an H100 they took 1.3
      // to 1.8 times as long as a tile that two consumers share.
      if (is_grouped(problem) && problem.epilogue.reads_input() && tile.ping_pong) continue;
      HopperPlan plan{};
      plan.tile = static_cast<int8_t>(t);
      plan.swap_ab = swap_ab;
      plan.copy_p = copy_of(sides.p, problem, is_ready_p(sides.p, problem, tile));
      plan.copy_q = copy_of(sides.q, problem, tma_reads(sides.q, problem));
      plan.stores_by_tma = by_tma;
      const bool p_mn_major = is_mn_major(copied(sides.p, problem.dtype, plan.copy_p));
      const bool q_mn_major = is_mn_major(copied(sides.q, problem.dtype, plan.copy_q));
      for (const auto& [cluster_p, cluster_q] : CLUSTERS)
        for (int share = 0; share <= may_share; ++share) {
          plan.split_k = share;
          plan.cluster_p = static_cast<int8_t>(cluster_p);
          plan.cluster_q = static_cast<int8_t>(cluster_q);
          if (!parts_fit(plan, p_mn_major, q_mn_major)) continue;
          // With a tree four blocks take 1.05 to 1.7 times as long as two (docs/decisions/049),
          // which the estimates do not know.
          if (problem.leaf > 0 && cluster_p * cluster_q > 2) continue;
          const Units units = units_of(problem, plan);
          if (units.count > MOST_OF_TMA) continue;
          const int blocks = cluster_p * cluster_q;
          int64_t places = clusters_at_once(device, blocks) * tile.blocks_per_sm;
          // Groups may have fewer units than are counted here. And blocks of which two fit a
          // multiprocessor are spread over all of them however few there are, but unevenly.
          if (share)
            places = places_for(units, places);
          else if (!is_grouped(problem) && tile.blocks_per_sm == 1)
            places = fewest_places(units.count, places);
          plan.blocks = static_cast<int32_t>(std::min(units.count, places) * blocks);
          // No taller than the problem, so that the panel's count of units fits too.
          plan.panel =
              static_cast<int32_t>(std::clamp<int64_t>(units.clusters_p, 1, 16 / cluster_p));
          visit(Way(plan));
        }
    }
  }
}

// An epilogue that adds to sums of integers has no kernel, nor have groups that share out K of
// tf32.
bool computes(const Problem& problem) {
  const bool is_tree = problem.leaf > 0;
  if (is_tree && (is_grouped(problem) || problem.arithmetic != Arithmetic::Tensor ||
                  chain_count(problem) > MOST_LEAVES))
    return false;
  if (problem.groups.shared == Shared::K && lies_along_k(problem) &&
      (size_of(problem.dtype) != 1 ||
       copied(side_a(problem), problem.dtype, CopyTo::Spaced).k > MOST_OF_TMA))
    return false;
  if (size_of(problem.dtype) == 1) return is_scaled(problem) || problem.epilogue.is_identity();
  return is_of_wgmma(problem.arithmetic);
}

bool supports(const Problem& problem, const DeviceInfo& device) {
  // With 64 x 16 for a tile: every other has fewer units.
  const int64_t units = saturating_product(
      saturating_product(blocks_over(problem.m, 64), blocks_over(problem.n, 16)), problem.batch);
  return (!is_grouped(problem) || problem.k > 0) && computes(problem) && device.hopper_kernels &&
         sizes_fit_tma(problem) && units <= MOST_OF_TMA;
}

// In the order of HopperTiles.
std::vector<std::string> variants() { return variants_of(HopperTiles()); }

Plan plan(const Problem& problem, const DeviceInfo&, const Way& way) {
  const HopperPlan choice = way.as<HopperPlan>();
  const HopperTileInfo& tile = hopper_tile(choice.tile);
  Plan plan = plan_of(Algo::Hopper, way, problem, choice.swap_ab, tile.block_p, tile.block_q,
                      tma_step(problem));
  plan.copy_p = choice.copy_p, plan.copy_q = choice.copy_q;
  if (problem.k == 0) {
    add_sums(plan, problem);
    return plan;
  }
  add_copies(plan, problem);
  Step step = product_step(tile.threads, choice.blocks,
                           is_scaled(problem) ? tile.scaled_bytes : tile.shared_bytes);
  step.cluster = static_cast<int8_t>(choice.cluster_p * choice.cluster_q);
  // Between segments a tile's totals stay in registers, or wait in the workspace, as do a tree's
  // sums beyond the first few. Those of bytes are the sums themselves.
  const bool totals_wait = segment_count(problem) > 1 && size_of(problem.dtype) != 1 &&
                           !totals_stay(tile.totals_fit, size_of(problem.dtype));
  const int64_t totals = int64_t{tile.consumers} * tile.group_p * tile.block_q * 4;  // of a block
  const WaitingCounts waiting = waiting_beyond(tile.sums_kept, problem);
  if (choice.split_k)
    add_with_sums(plan, step, problem);
  else
    plan.add_with_totals(step, choice.blocks * totals * (totals_wait ? 1 : waiting.most));
  const Problem judged = average_of(problem_as_read(problem, plan));
  plan.demand =
      demand_of(judged, sides_of(judged, choice.swap_ab), tile.block_p, tile.block_q, choice.tile,
                tile.blocks_per_sm, choice.split_k, choice.cluster_p, choice.cluster_q);
  // A sum that waits in memory is stored and read again, which takes as long as C each time.
  if (!choice.split_k) plan.demand.ends += 2 * static_cast<double>(waiting.all);
  // It takes fp8 along K alone, and longer where each column has a scale of its own in every step.
  if (is_scaled(problem))
    plan.demand.q_mn_major = is_blockwise(problem.scales) && !has_one_q(problem, choice.swap_ab);
  return plan;
}

NamedWay name(const Problem&, const Way& way) {
  const HopperPlan plan = way.as<HopperPlan>();
  return named_way(hopper_tile_name(plan.tile), plan, plan.split_k);
}

}  // namespace

extern const Rung HopperRung = {
    Algo::Hopper, Use::Chosen, &supports,
    &ways,        &plan,       &describe_hopper,
    &name,        &variants,   TAKES_GROUPS | TAKES_SCALES | TAKES_TREES};

}  // namespace tiled
