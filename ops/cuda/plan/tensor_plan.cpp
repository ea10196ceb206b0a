#include "cuda/plan/tensor_plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "cuda/plan/hopper_layout.h"
#include "cuda/plan/tiles.h"

namespace tiled {
namespace {

// TMA's coordinates and the kernels' counters have 31 bits; a tile may reach beyond the end.
constexpr int64_t MAX_SIZE = (int64_t{1} << 31) - 512;

bool computes(const Problem& problem, const DeviceInfo& device) {
  return on_tensor_cores(problem.arithmetic) && device.hopper_kernels;
}

bool sizes_fit(const Problem& problem) {
  return problem.m <= MAX_SIZE && problem.n <= MAX_SIZE && problem.k <= MAX_SIZE &&
         problem.batch <= MAX_SIZE;
}

// Whether wgmma can read the operand by TMA where it lies.
bool is_ready(const Side& side, const Problem& problem) {
  return is_mappable(side) && !(problem.arithmetic == Arithmetic::Tf32 && is_mn_major(side));
}
// The same of hopper's P, which some tiles take from registers.
bool is_ready_p(const Side& side, const Problem& problem, const HopperTileInfo& tile) {
  return is_ready(side, problem) ||
         (is_mappable(side) && reads_by_registers(tile.group_p, tile.group_q, tile.consumers));
}

bool grid_fits(const Problem& problem, int64_t block_m, int64_t block_n) {
  return saturating_product(blocks_over(problem.m, block_m), blocks_over(problem.n, block_n)) <=
         MAX_GRID_X;
}

StorePath store_path(const Problem& problem, const Sides& sides) {
  if (size_of(problem.epilogue.out_dtype) != 2 || (sides.c_p != 1 && sides.c_q != 1))
    return StorePath::Scatter;
  const bool along_p = sides.c_q != 1;
  const int64_t rows = along_p ? sides.q.rows : sides.p.rows;
  const int64_t length = along_p ? sides.p.rows : sides.q.rows;
  const int64_t pitch = along_p ? sides.c_q : sides.c_p;
  // TMA writes whole 16 bytes: of a row that ends inside of such a piece it would write the rest.
  const bool by_tma = problem.c.alignment == 16 && length % 8 == 0 && (rows <= 1 || pitch > 1);
  return by_tma ? StorePath::Tma : StorePath::Rows;
}

// A Q that lies along K is cut into parts of whole groups of eight rows where a cluster shares it.
bool parts_fit(const HopperPlan& plan, bool p_mn_major, bool q_mn_major) {
  const HopperTileInfo& tile = hopper_tile(plan.tile);
  return (p_mn_major || tile.block_p % (8 * plan.cluster_q) == 0) &&
         (q_mn_major || tile.block_q % (8 * plan.cluster_p) == 0);
}

constexpr std::pair<int, int> CLUSTERS[] = {{1, 1}, {2, 1}, {1, 2}};

template <typename Visit>
void for_hopper_plans(const Problem& problem, const DeviceInfo& device, Visit visit) {
  const int64_t segments = segment_count(problem.k);
  const bool may_share = segments > 1 && problem.batch <= MAX_GRID_Y;
  for (const bool exchanged : {false, true}) {
    const Sides sides = sides_of(problem, exchanged);
    const bool q_is_ready = is_ready(sides.q, problem);
    const StorePath store = store_path(problem, sides);
    for (int t = 0; t < HOPPER_TILE_COUNT; ++t) {
      const HopperTileInfo& tile = hopper_tile(t);
      HopperPlan plan{};
      plan.tile = static_cast<int8_t>(t);
      plan.exchanged = exchanged;
      plan.repack_p = !is_ready_p(sides.p, problem, tile);
      plan.repack_q = !q_is_ready;
      plan.store = store;
      const Sides read = sides_read(problem, plan);
      const bool p_mn_major = is_mn_major(read.p), q_mn_major = is_mn_major(read.q);
      for (const auto& [cluster_p, cluster_q] : CLUSTERS)
        for (int share = 0; share <= may_share; ++share) {
          plan.share_segments = share;
          plan.cluster_p = static_cast<int8_t>(cluster_p);
          plan.cluster_q = static_cast<int8_t>(cluster_q);
          if (!parts_fit(plan, p_mn_major, q_mn_major)) continue;
          const Units units = units_of(problem, plan);
          if (units.count > MAX_SIZE) continue;
          const int blocks = cluster_p * cluster_q;
          const int64_t places = int64_t{device.multiprocessors} * tile.blocks_per_sm / blocks;
          plan.blocks = static_cast<int32_t>(std::min(units.count, places) * blocks);
          // No taller than the problem, so that the panel's count of units fits too.
          plan.panel =
              static_cast<int32_t>(std::clamp<int64_t>(units.clusters_p, 1, 16 / cluster_p));
          visit(plan);
        }
    }
  }
}

Plan base_plan(const Problem& problem, Algo algo, int64_t block_m, int64_t block_n, int64_t block_k,
               int threads, int64_t shared_bytes) {
  Plan plan{};
  plan.algo = algo;
  plan.access_a = plan.access_b = Access::Elements;
  plan.block_m = static_cast<int32_t>(block_m);
  plan.block_n = static_cast<int32_t>(block_n);
  plan.block_k = static_cast<int32_t>(block_k);
  plan.threads_x = threads;
  plan.threads_y = 1;
  plan.tiles_m = blocks_over(problem.m, block_m);
  plan.tiles_n = blocks_over(problem.n, block_n);
  plan.grid_x = plan.tiles_m * plan.tiles_n;
  plan.grid_y = static_cast<int32_t>(std::min(problem.batch, MAX_GRID_Y));
  plan.shared_bytes = shared_bytes;
  return plan;
}

Plan fastest_hopper_plan(const Problem& problem, const DeviceInfo& device) {
  HopperPlan best{};
  double best_cycles = std::numeric_limits<double>::infinity();
  for_hopper_plans(problem, device, [&](const HopperPlan& plan) {
    const double cycles = estimate(problem, device, plan).cycles;
    if (cycles < best_cycles) best = plan, best_cycles = cycles;
  });
  return plan_with(problem, best);
}

// Everything that the choice depends on.
using Key = std::array<int64_t, 20>;
Key key_of(const Problem& p, const DeviceInfo& device) {
  return {p.batch,
          p.m,
          p.n,
          p.k,
          static_cast<int64_t>(p.dtype),
          static_cast<int64_t>(p.arithmetic),
          static_cast<int64_t>(p.epilogue.out_dtype),
          p.a.row_stride,
          p.a.col_stride,
          p.a.batch_stride,
          p.a.alignment,
          p.b.row_stride,
          p.b.col_stride,
          p.b.batch_stride,
          p.b.alignment,
          p.c.row_stride,
          p.c.col_stride,
          p.c.batch_stride,
          p.c.alignment,
          device.multiprocessors};
}

// The model looks at over a hundred ways, some microseconds' work; a program asks for the same few
// shapes again and again.
Plan remembered_hopper_plan(const Problem& problem, const DeviceInfo& device) {
  struct Entry {
    Key key{};
    Plan plan{};
  };
  constexpr size_t ENTRIES = 64;  // of each thread
  static thread_local std::array<Entry, ENTRIES> entries;
  const Key key = key_of(problem, device);
  uint64_t hash = 0;
  for (const int64_t value : key)
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15u;
  Entry& entry = entries[hash >> 58];
  if (entry.key != key) entry = {key, fastest_hopper_plan(problem, device)};
  return entry.plan;
}

// Whether copying an operand first would cost more than mma_tile's slow loads.
bool is_small_and_unaligned(const Problem& problem) {
  const bool ready = is_ready(side_a(problem), problem) && is_ready(side_b(problem), problem);
  return !ready && problem.m <= 128 && problem.n <= 128 && problem.k <= 256;
}

}  // namespace

bool tensor_supports(Algo algo, const Problem& problem, const DeviceInfo& device) {
  if (!computes(problem, device)) return false;
  const bool reads_by_tma = sizes_fit(problem) && is_ready(side_a(problem), problem) &&
                            is_ready(side_b(problem), problem);
  switch (algo) {
    case Algo::MmaTile: return grid_fits(problem, MmaTile::ROWS, MmaTile::ROWS);
    case Algo::TmaWgmma:
      return reads_by_tma && grid_fits(problem, TmaWgmmaTile::BLOCK_M, TmaWgmmaTile::BLOCK_N);
    case Algo::WarpSpecialized:
      return reads_by_tma &&
             grid_fits(problem, WarpSpecializedTile::BLOCK_M, WarpSpecializedTile::BLOCK_N);
    case Algo::Hopper:  // with 64 x 16 for a tile: every other has fewer units
      return sizes_fit(problem) &&
             saturating_product(
                 saturating_product(blocks_over(problem.m, 64), blocks_over(problem.n, 16)),
                 problem.batch) <= MAX_SIZE;
    default: return false;
  }
}

std::vector<HopperPlan> hopper_plans(const Problem& problem, const DeviceInfo& device) {
  std::vector<HopperPlan> plans;
  if (sizes_fit(problem))
    for_hopper_plans(problem, device, [&](const HopperPlan& plan) { plans.push_back(plan); });
  return plans;
}

Plan plan_with(const Problem& problem, const HopperPlan& choice) {
  const HopperTileInfo& tile = hopper_tile(choice.tile);
  const int block_m = choice.exchanged ? tile.block_q : tile.block_p;
  const int block_n = choice.exchanged ? tile.block_p : tile.block_q;
  Plan plan = base_plan(problem, Algo::Hopper, block_m, block_n, 128 / size_of(problem.dtype),
                        tile.threads, tile.shared_bytes);
  plan.hopper = choice;
  plan.grid_x = choice.blocks;
  plan.grid_y = 1;
  plan.workspace_bytes = hopper_workspace(problem, choice);
  return plan;
}

Plan make_tensor_plan(const Problem& problem, const DeviceInfo& device, Algo algo) {
  if (algo == Algo::Hopper) return remembered_hopper_plan(problem, device);
  const int64_t block_k = 128 / size_of(problem.dtype);
  switch (algo) {
    case Algo::TmaWgmma: {
      using Tile = TmaWgmmaTile;
      return base_plan(problem, algo, Tile::BLOCK_M, Tile::BLOCK_N, block_k, Tile::THREADS,
                       Tile::SHARED_BYTES);
    }
    case Algo::WarpSpecialized: {
      using Tile = WarpSpecializedTile;
      return base_plan(problem, algo, Tile::BLOCK_M, Tile::BLOCK_N, block_k, Tile::THREADS,
                       Tile::SHARED_BYTES);
    }
    default:
      return base_plan(problem, Algo::MmaTile, MmaTile::ROWS, MmaTile::ROWS,
                       MmaTile::WORDS * 4 / size_of(problem.dtype), MmaTile::THREADS,
                       MmaTile::SHARED_BYTES);
  }
}

Plan make_tensor_plan(const Problem& problem, const DeviceInfo& device) {
  const bool hopper =
      !is_small_and_unaligned(problem) && tensor_supports(Algo::Hopper, problem, device);
  return make_tensor_plan(problem, device, hopper ? Algo::Hopper : Algo::MmaTile);
}

}  // namespace tiled
