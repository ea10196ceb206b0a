// Rung tall as the planner sees it: either operand as the long one, and each tile.
#include "cuda/engine/tall/plan.h"

#include <algorithm>

#include "cuda/plan/candidate.h"
#include "cuda/plan/describe.h"
#include "cuda/plan/kernel_name.h"
#include "cuda/plan/kernels_of.h"
#include "cuda/plan/sums.h"
#include "cuda/plan/tma.h"

namespace tiled {
namespace {

bool supports(const Problem& problem, const DeviceInfo& device) {
  const bool chains = problem.arithmetic == Arithmetic::Fma && problem.dtype == DType::Float32;
  return (chains || problem.arithmetic == Arithmetic::Tensor) &&
         kernels_of(device).mma == Mma::All && sizes_fit_tma(problem);
}

TallRead read_of(const Side& side) {
  if (!is_side_by_side(side)) return TallRead::Elements;
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

void ways(const Problem& problem, const DeviceInfo& device, Visit visit) {
  const bool chains = problem.arithmetic == Arithmetic::Fma;
  for (const bool swap_ab : {false, true}) {
    TallWay way{};
    way.swap_ab = swap_ab;
    const Problem p = tall_problem(problem, way);
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
      const int64_t slots = device.multiprocessors * fitting_blocks(p, way, device);
      const int64_t others = saturating_product(columns, p.batch);
      way.sharers = static_cast<int32_t>(std::clamp<int64_t>(
          slots / std::max<int64_t>(others, 1), 1, std::max<int64_t>(strips_of(p, way), 1)));
      way.in_flight = static_cast<int32_t>(std::min(p.batch, MAX_GRID_Y));
      visit(Way(way));
    }
  }
}

// Warps of a block that have a strip: an entry of a batch may have fewer strips than these.
int64_t warps_with_strips(const Problem& p, const TallWay& way) {
  return std::clamp<int64_t>(blocks_over(strips_of(p, way), int64_t{way.sharers}), 1,
                             tall_tile(way.tile).warps);
}

// The bytes of C that stores of single elements touch (chains.cuh, fragments.cuh), where its rows
// are neither whole vectors nor, all columns in one tile, a stretch. Along m chains fill whole
// sectors.
double lines_of_single_stores(const Problem& p, const TallTileInfo& tile) {
  const Result& c = p.c;
  const int64_t size = size_of(p.epilogue.out_dtype);
  const bool along_m = c.row_stride == 1 && c.col_stride != 1;
  if (along_m) return tile.chains || c.alignment == 16 ? 0 : store_lines_of(p, 4, 7 * size);
  const bool is_stretch = c.row_stride == p.n && p.n <= tile.block_n &&
                          (p.batch <= 1 || c.batch_stride * size % 16 == 0);
  if (is_stretch || c.alignment == 16) return 0;
  const int64_t apart = tile.chains ? 4 : 2;  // elements from each of four lanes to the next
  return store_lines_of(p, 8, 3 * apart * size);
}

std::vector<std::string> variants() { return variants_of(TallTiles(), {"", " unaligned"}); }

Plan plan(const Problem& problem, const DeviceInfo& device, const Way& way) {
  const TallWay chosen = way.as<TallWay>();
  const TallTileInfo& tile = tall_tile(chosen.tile);
  const Problem p = tall_problem(problem, chosen);
  Plan plan = plan_of(Algo::Tall, way, problem, chosen.swap_ab, tile.rows * tile.warps,
                      tile.block_n, tile.step_k);
  plan.demand =
      demand_of(p, tile.rows, tile.block_n, 2 * chosen.tile + (chosen.read != TallRead::Sixteen),
                warps_with_strips(p, chosen) * fitting_blocks(p, chosen, device));
  plan.demand.store_lines = lines_of_single_stores(p, tile);
  // The panel stays in shared memory; or a block reads it again with every strip of its warps.
  const int64_t columns = blocks_over(p.n, int64_t{tile.block_n});
  int64_t panel_loads = blocks_over(strips_of(p, chosen), int64_t{tile.warps});
  if (panel_stays(p, chosen)) {
    plan.demand.loaded_bytes *= static_cast<double>(tile.rows) / (tile.rows + tile.block_n);
    plan.demand.off_sector_bytes =
        begins_off_sector(side_a(p), p.dtype) ? plan.demand.loaded_bytes : 0;
    panel_loads = chosen.sharers;
  }
  plan.demand.line_loads = static_cast<double>(std::max(columns, panel_loads));
  if (problem.k == 0) {
    add_sums(plan, problem);
    return plan;
  }
  Step step = product_step(tile.threads, int64_t{tall_columns(p, chosen)} * chosen.sharers,
                           shared_bytes_of(chosen));
  step.grid_y = chosen.in_flight;
  add_product(plan, step, p, /*split_k=*/false);
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
//   tall  {swap_ab, reads: "by 16 bytes" and the like, panel_k}
Description describe(const Problem& problem, const DeviceInfo&, const Plan& whole) {
  const TallWay way = whole.way.as<TallWay>();
  const TallTileInfo& tile = tall_tile(way.tile);
  const Problem p = tall_problem(problem, way);
  Description d;
  d.tile = tall_tile_name(way.tile);
  d.kernel = "tall<" + d.tile + ", " + element_type(problem.dtype) + ", " +
             (is_mn_major(side_a(p)) ? "1, " : "0, ") + (is_plain(p, way) ? "1" : "0") + ">";
  // A lane of tensor cores has a pair of columns in two rows of every 16 x 8.
  d.thread_m = tile.rows / 8, d.thread_n = tile.block_n / 4;
  d.lines.emplace_back("reads", std::string(way.swap_ab ? "B " : "A ") + name_of(way.read) +
                                    (panel_stays(p, way) ? "" : "; the panel again and again"));
  d.json.emplace_back("tall", Object()
                                  .truth("swap_ab", way.swap_ab)
                                  .text("reads", name_of(way.read))
                                  .count("panel_k", way.panel_k)
                                  .str());
  return d;
}

NamedWay name(const Problem&, const Way& way) {
  const TallWay chosen = way.as<TallWay>();
  return named_way(std::string(tall_tile_name(chosen.tile)), chosen.swap_ab,
                   /*split_k=*/false);
}

}  // namespace

extern const Rung TallRung = {Algo::Tall, Use::Chosen, &supports, &ways,
                              &plan,      &describe,   &name,     &variants};

}  // namespace tiled
