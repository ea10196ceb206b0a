#include "cuda/tensor_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "cuda/hopper_layout.h"
#include "cuda/tiles.h"

namespace tiled {
namespace {

// TMA's coordinates and the kernels' counters have 31 bits; a tile may reach beyond the end.
constexpr int64_t MAX_SIZE = (int64_t{1} << 31) - 512;

bool computes(const Problem& problem, const DeviceInfo& device) {
  return on_tensor_cores(problem.arithmetic) && device.capability == 90 &&
         problem.epilogue.identity();
}

bool sizes_fit(const Problem& problem) {
  return problem.m <= MAX_SIZE && problem.n <= MAX_SIZE && problem.k <= MAX_SIZE &&
         problem.batch <= MAX_SIZE;
}

// Whether wgmma can read the operand by TMA where it lies.
bool is_ready(const Side& side, const Problem& problem) {
  return is_mappable(side) && !(problem.arithmetic == Arithmetic::Tf32 && is_mn_major(side));
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

// The grid of units that a plan's clusters walk through.
struct Units {
  int64_t clusters_p, clusters_q, count;
};
Units units_of(const Problem& problem, const HopperPlan& plan) {
  const HopperTileInfo& tile = hopper_tile(plan.tile);
  const int64_t p = plan.exchanged ? problem.n : problem.m;
  const int64_t q = plan.exchanged ? problem.m : problem.n;
  Units units;
  units.clusters_p = blocks_over(p, int64_t{tile.block_p} * plan.cluster_p);
  units.clusters_q = blocks_over(q, int64_t{tile.block_q} * plan.cluster_q);
  const int64_t segments = plan.share_segments ? segment_count(problem.k) : 1;
  units.count = saturating_product(saturating_product(units.clusters_p, units.clusters_q),
                                   problem.batch * segments);
  return units;
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
  const Side a = side_a(problem), b = side_b(problem);
  const bool repack_a = !is_ready(a, problem), repack_b = !is_ready(b, problem);
  const bool a_mn = is_mn_major(repack_a ? repacked(a, problem, nullptr) : a);
  const bool b_mn = is_mn_major(repack_b ? repacked(b, problem, nullptr) : b);
  const int64_t segments = segment_count(problem.k);
  for (int t = 0; t < HOPPER_TILE_COUNT; ++t)
    for (const bool exchanged : {false, true})
      for (const auto& [cluster_p, cluster_q] : CLUSTERS)
        for (const bool share : {false, true}) {
          if (share && (segments == 1 || problem.batch > MAX_GRID_Y)) continue;
          HopperPlan plan{};
          plan.tile = static_cast<int8_t>(t);
          plan.exchanged = exchanged;
          plan.repack_p = exchanged ? repack_b : repack_a;
          plan.repack_q = exchanged ? repack_a : repack_b;
          plan.share_segments = share;
          plan.cluster_p = static_cast<int8_t>(cluster_p);
          plan.cluster_q = static_cast<int8_t>(cluster_q);
          if (!parts_fit(plan, exchanged ? b_mn : a_mn, exchanged ? a_mn : b_mn)) continue;
          const Units units = units_of(problem, plan);
          if (units.count > MAX_SIZE) continue;
          const int blocks = cluster_p * cluster_q;
          const int64_t places =
              int64_t{device.multiprocessors} * hopper_tile(t).blocks_per_sm / blocks;
          plan.blocks = static_cast<int32_t>(std::min(units.count, places) * blocks);
          // No taller than the problem, so that the panel's count of units fits too.
          plan.panel =
              static_cast<int32_t>(std::clamp<int64_t>(units.clusters_p, 1, 16 / cluster_p));
          plan.store = store_path(problem, sides_of(problem, exchanged));
          visit(plan);
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

// The model's constants: cycles of 1755 MHz, and factors on what the units do at best (2048
// multiply-adds of 16 bits and 128 bytes of shared memory a cycle). Fitted to the measured times of
// every way to run 150 bf16 problems on an H200, so as to lose least by the choice; bench.planner
// measures what is lost. The segments' terms are from an earlier fit.
struct Model {
  static constexpr double START = 3620;     // launch, the first bytes' way, the end
  static constexpr double CLUSTER = 391;    // its blocks begin and end together
  static constexpr double COUPLED = 0.033;  // of a step: they wait for each other at each
  static constexpr double TENSOR = 0.891, SHARED = 1.13;
  static constexpr double POWER = 0.305;  // more, when all multiprocessors work at once
  static constexpr double LONE = 223;     // the shortest step of a tile with one consumer
  static constexpr double ARRIVE = 1.43;  // 128 bytes reach their multiprocessor
  static constexpr double ROUNDING = 2;   // of a row, where it is rounded to tf32 on its way
  // A row of 128 bytes leaves L2 while the whole chip reads: in one line; more if in two; more if
  // it begins off L2's sectors of 32 bytes. Reads by multicast cost nothing here. The first read of
  // a round costs FIRST_READ more of these; the row's readers share that.
  static constexpr double LINE = 0.0642, TWO_LINES = 1.57, OFF_SECTORS = 0.862, FIRST_READ = 2.47;
  static constexpr double NARROW = 1.48, NARROWEST = 2.19;  // boxes of TMA 64 and 32 bytes wide
  // A cycle, of the chip. What several clusters read without multicast crosses between L2's halves.
  static constexpr double DRAM_BYTES = 3800, CROSSING = 0.723;
  static constexpr double STORE = 13;              // for each element of a thread
  static constexpr double STORE_TWO_LINES = 1.45;  // more, for rows of C that lie in two lines
  static constexpr double HIDDEN_STORE = 0.383;    // of a store behind another's products
  static constexpr double GAPS = 0.0571;  // of all but the first round, with no other tile to fill
  static constexpr double FLUSH = 4.38, HIDDEN_FLUSH = 4.14;  // totals to and from L2
  static constexpr double SUM_KERNEL = 3410, SUM_CYCLES_A_BYTE = 0.31e-3;
};

// The share of rows so far apart that lie in two of L2's lines of 128 bytes, of rows as long.
double across_lines(int64_t stride, int64_t element_bytes) {
  const uint64_t offset =
      static_cast<uint64_t>(stride) * static_cast<uint64_t>(element_bytes) % 128;
  const uint64_t alignment = offset & (~offset + 1);  // the largest power of two that divides it
  return offset == 0 ? 0 : 1 - static_cast<double>(alignment) / 128;
}

// What a row of an operand's boxes costs on its way out of L2.
double row_cost(const Side& side, bool repacked, int64_t element_bytes) {
  if (repacked) return Model::LINE;
  const double across =
      across_lines(is_mn_major(side) ? side.k_stride : side.row_stride, element_bytes);
  constexpr double HALF_SECTORS = 1 - 16. / 128;  // across, where every other row begins in one
  return Model::LINE + Model::TWO_LINES * across +
         (across >= HALF_SECTORS ? Model::OFF_SECTORS : 0);
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

HopperEstimate estimate(const Problem& problem, const DeviceInfo& device, const HopperPlan& plan) {
  const HopperTileInfo& tile = hopper_tile(plan.tile);
  const Sides sides = sides_of(problem, plan.exchanged);
  const double p = static_cast<double>(sides.p.rows), q = static_cast<double>(sides.q.rows);
  const int64_t segments = segment_count(problem.k);
  const int64_t element_bytes = size_of(problem.dtype);
  const double area = tile.block_p * tile.block_q;  // elements of C
  constexpr double STAGE_BYTES = 128;               // of K, a stage's depth
  const int64_t depth = plan.share_segments ? segment_size(problem.k) : problem.k;
  const double steps = std::ceil(static_cast<double>(depth * element_bytes) / STAGE_BYTES);

  // Rounds of tiles, one for every block that fits the chip.
  const int blocks = plan.cluster_p * plan.cluster_q;
  const Units units = units_of(problem, plan);
  const int64_t clusters_at_once = std::max(1, device.multiprocessors / blocks);
  const int64_t places = clusters_at_once * tile.blocks_per_sm;
  const int64_t whole_rounds = units.count / places, rest = units.count % places;
  const double rounds = static_cast<double>(whole_rounds + (rest != 0));

  // The clusters of a round that read the same rows of P, and those of Q.
  const auto readers = [&](double each_reads, int64_t clusters) {
    return std::max(1.0, std::min(static_cast<double>(clusters_at_once) / each_reads,
                                  static_cast<double>(clusters)));
  };
  const double p_readers = readers(plan.panel, units.clusters_q);
  const double q_readers = readers(p_readers, units.clusters_p);
  // Rows of a stage: those that exist of the largest tile.
  const double p_rows = std::min<double>(tile.block_p, p);
  const double q_rows = std::min<double>(tile.block_q, q);
  const int atom = operand_atom(tile.group_q);
  const double narrow = !is_mn_major(sides.q) || atom == 64 ? 1
                        : atom == 32                        ? Model::NARROW
                                                            : Model::NARROWEST;
  const auto reads = [](double rows, int sharers, double of_readers) {
    return rows / sharers * ((sharers == 1 ? 1 : 0) + Model::FIRST_READ / of_readers);
  };
  const double rounding = problem.arithmetic == Arithmetic::Tf32 ? Model::ROUNDING : 1;
  const double arriving = Model::ARRIVE * rounding * (p_rows + q_rows * narrow);
  const double reading = rounding * (reads(p_rows, plan.cluster_q, p_readers) *
                                         row_cost(sides.p, plan.repack_p, element_bytes) +
                                     reads(q_rows, plan.cluster_p, q_readers) * narrow *
                                         row_cost(sides.q, plan.repack_q, element_bytes));

  HopperEstimate e;
  const double strips = area / 64 / tile.group_q;  // wgmmas of 64 rows for one k
  e.tensor = Model::TENSOR * area / 32 * (1 + Model::POWER);
  e.shared = Model::SHARED * strips * (64 + tile.group_q) * (1 + Model::POWER);
  e.feed = arriving + reading;
  e.waves = std::ceil(static_cast<double>(units.count) / static_cast<double>(clusters_at_once));

  // A step of a round of so many clusters: the longest of what goes on at once, and a little more
  // where others come close. Where two blocks fit a multiprocessor, two of a small grid meet on
  // one while others idle: those still held the kernel before when the grid began.
  const auto step = [&](int64_t clusters) {
    const double load = static_cast<double>(clusters * blocks) / device.multiprocessors;
    const int meeting = load > 0.25 ? tile.blocks_per_sm : 1;
    const double pace = (1 + Model::POWER * std::min(load, 1.0)) / (1 + Model::POWER);
    const double products = std::max(e.tensor, e.shared) * pace * meeting;
    const double feed = arriving * meeting + reading * load;
    const double lone = tile.consumers == 1 ? Model::LONE : 0;
    const auto fourth = [](double x) { return x * x * (x * x); };
    return std::sqrt(std::sqrt(fourth(products) + fourth(feed) + fourth(lone)));
  };
  double all_steps = 0;
  if (whole_rounds != 0) all_steps += static_cast<double>(whole_rounds) * step(places);
  if (rest != 0) all_steps += step(rest);
  const double gaps = tile.ping_pong ? 0 : Model::GAPS * (1 - 1 / std::max(rounds, 1.0));
  const double on_chip = all_steps * steps * (blocks > 1 ? 1 + Model::COUPLED : 1) * (1 + gaps);

  // What DRAM takes for the operands and C, hidden in part; it decides where rows are few.
  const auto crossing = [](int sharers, int64_t clusters) {
    return sharers == 1 && clusters > 1 ? 1 + Model::CROSSING : 1;
  };
  const double k_bytes = static_cast<double>(problem.k * element_bytes);
  const double bytes = static_cast<double>(problem.batch) *
                       (p * k_bytes * crossing(plan.cluster_q, units.clusters_q) +
                        q * k_bytes * crossing(plan.cluster_p, units.clusters_p) +
                        p * q * static_cast<double>(size_of(problem.epilogue.out_dtype)));
  const double from_dram = bytes / Model::DRAM_BYTES;
  e.cycles = Model::START + (blocks > 1 ? Model::CLUSTER : 0) +
             std::sqrt(on_chip * on_chip + from_dram * from_dram);

  const double across =
      across_lines(sides.c_q == 1 ? sides.c_p : sides.c_q, size_of(problem.epilogue.out_dtype));
  const double stores = Model::STORE * (1 + Model::STORE_TWO_LINES * across) * area / 128 /
                        (tile.ping_pong ? 1 : tile.consumers);
  e.cycles += stores * (tile.ping_pong ? 1 + Model::HIDDEN_STORE * (rounds - 1) : rounds);
  if (plan.share_segments)
    e.cycles +=
        Model::SUM_KERNEL + Model::SUM_CYCLES_A_BYTE * p * q * 4 * static_cast<double>(segments);
  else
    e.cycles += e.waves * static_cast<double>(segments - 1) * area * 8 / 64 *
                (tile.ping_pong && area <= 128 * 128 ? Model::HIDDEN_FLUSH : Model::FLUSH);
  return e;
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
