// Rung fp16x3 as the planner sees it.

#include <algorithm>
#include <utility>

#include "core/segments.h"
#include "cuda/engine/fp16x3/splits.h"
#include "cuda/plan/candidate.h"
#include "cuda/plan/describe.h"
#include "cuda/plan/hand_over.h"
#include "cuda/plan/kernels_of.h"
#include "cuda/plan/stream_k.h"
#include "cuda/plan/tma.h"

namespace tiled {
namespace {

constexpr int64_t MAX_ELEMENTS = int64_t{1} << 54;  // of the planes: their bytes can be counted

bool is_coarse(const DeviceInfo& device) { return device.capability != 90; }

// With more rows the terms of a deep K have no room, and to read W twice is the better way.
bool has_few_rows(const Problem& problem) {
  const int64_t few = std::min(problem.m, problem.n);
  return few <= FEW_ROWS / 2 || (few <= FEW_ROWS && problem.k <= 8192);
}

// The persistent kernels by wgmma.
void ways_by_clusters(const Problem& problem, const DeviceInfo& device, Visit visit) {
  constexpr std::pair<int, int> CLUSTERS[] = {{1, 1}, {2, 1}, {1, 2}};
  for (int t = 0; t < FP16X3_TILE_COUNT; ++t)
    for (const bool swap_ab : {false, true})
      for (const auto& [cluster_p, cluster_q] : CLUSTERS) {
        const Sides sides = sides_of(problem, swap_ab);
        if (is_direct(t) && (is_grouped(problem) || !is_mappable(sides.p))) continue;
        Fp16x3Plan plan{};
        plan.kernel = is_direct(t) ? Fp16x3Kernel::Direct : Fp16x3Kernel::Planes;
        plan.tile = static_cast<int8_t>(t);
        plan.swap_ab = swap_ab;
        plan.cluster_p = static_cast<int8_t>(cluster_p);
        plan.cluster_q = static_cast<int8_t>(cluster_q);
        const Fp16x3TileInfo tile = tile_of(plan);
        const int sharers = cluster_p * cluster_q;
        int64_t clusters_p = blocks_over(sides.p.rows, int64_t{tile.block_p} * cluster_p);
        int64_t clusters_q = blocks_over(sides.q.rows, int64_t{tile.block_q} * cluster_q);
        int64_t entries = problem.batch;
        // Each group may end with a part of a tile, and write to one matrix.
        if (sides.p.is_shared) clusters_p += std::exchange(entries, 1);
        if (sides.q.is_shared) clusters_q += std::exchange(entries, 1);
        const int64_t units = clusters_p * clusters_q * entries;
        plan.panel = static_cast<int32_t>(std::clamp<int64_t>(clusters_p, 1, 16 / cluster_p));
        const int64_t places =
            std::max<int64_t>(1, int64_t{device.multiprocessors} * tile.blocks_per_sm / sharers);
        plan.blocks = static_cast<int32_t>(std::min(units, places) * sharers);
        visit(Way(plan));
        plan.stream_k = !is_grouped(problem) && plan.kernel == Fp16x3Kernel::Planes &&
                        segment_count(problem.k) == 1 && units < MAX_GRID_X &&
                        StreamK::fits(units, places, blocks_over(problem.k, 64));
        if (plan.stream_k) visit(Way(plan));
      }
}

// The kernel by mma.sync: a block for each tile.
void ways_by_async(const Problem& problem, const DeviceInfo& device, Visit visit) {
  for (int t = 0; t < Fp16x3AsyncTiles::COUNT; ++t) {
    Fp16x3Plan plan{};
    plan.kernel = Fp16x3Kernel::Async;
    plan.tile = static_cast<int8_t>(t);
    const Fp16x3TileInfo tile = tile_of(plan);
    if (tile.shared_bytes > device.shared_bytes_per_block) continue;
    plan.coarse = is_coarse(device);
    plan.cluster_p = plan.cluster_q = 1;
    plan.panel = 1;
    const int64_t tiles = most_tiles(problem, tile.block_p, tile.block_q);
    // Blocks of groups are persistent, and go from tile to tile.
    plan.blocks = static_cast<int32_t>(
        is_grouped(problem)
            ? std::min<int64_t>(tiles, int64_t{device.multiprocessors} * tile.blocks_per_sm)
            : tiles * std::min(problem.batch, MAX_GRID_Y));
    visit(Way(plan));
  }
}

// Whether the bytes of planes of so many rows can be counted.
bool planes_fit(const Problem& problem, int64_t rows) {
  return saturating_product(saturating_product(rows, problem.k), problem.batch) <= MAX_ELEMENTS;
}
bool planes_of_both_fit(const Problem& problem) {
  return planes_fit(problem, saturating_product(2, std::max(problem.m, problem.n)));
}

bool supports(const Problem& problem, const DeviceInfo& device) {
  const bool one_split = device.hopper_kernels && has_few_rows(problem) && !is_grouped(problem);
  const int64_t squares = saturating_product(  // of the guard
      saturating_product(blocks_over(problem.m, 64), blocks_over(problem.n, 64)), problem.batch);
  return problem.arithmetic == Arithmetic::Fp16x3 &&
         computes(kernels_of(device), problem.arithmetic, problem.dtype) && groups_fit(problem) &&
         sizes_fit_tma(problem) && problem.batch <= MOST_OF_TMA / 2 && squares <= MOST_OF_TMA &&
         (one_split ? planes_fit(problem, std::min(problem.m, problem.n))
                    : planes_of_both_fit(problem));
}

// Q has few rows: P is read once, as it lies.
void ways_of_few_rows(const Problem& problem, Visit visit) {
  const int64_t few = std::min(problem.m, problem.n), many = std::max(problem.m, problem.n);
  for (int t = 0; t < Fp16x3FewRowsTiles::COUNT; ++t)
    for (int cluster = 1; cluster <= FEW_ROWS_CLUSTER; ++cluster) {
      if (cluster > 1 && int64_t{cluster} * FEW_ROWS_CHUNK > problem.k) break;
      Fp16x3Plan plan{};
      plan.kernel = Fp16x3Kernel::FewRows;
      plan.tile = static_cast<int8_t>(t);
      plan.swap_ab = problem.m < problem.n;
      plan.cluster_p = static_cast<int8_t>(cluster), plan.cluster_q = 1;
      plan.panel = 1;
      plan.blocks =
          static_cast<int32_t>(std::max<int64_t>(blocks_over(many, FEW_ROWS_BLOCK_P), 1) * cluster);
      plan.block = few_rows_block(few, problem.k, tile_of(plan), cluster);
      visit(Way(plan));
    }
}

void ways(const Problem& problem, const DeviceInfo& device, Visit visit) {
  const bool fit = planes_of_both_fit(problem);
  if (fit && !(is_grouped(problem) && device.hopper_kernels)) ways_by_async(problem, device, visit);
  if (!device.hopper_kernels) return;
  if (has_few_rows(problem) && !is_grouped(problem)) ways_of_few_rows(problem, visit);
  if (fit) ways_by_clusters(problem, device, visit);
}

// Tiles of the two splits' kernel and the direct one; of few rows by how many there are, in eights,
// since each number is a kernel of its own, alone and in clusters; and of mma.sync.
constexpr int FEW_ROWS_MANNERS = 8;
std::vector<std::string> variants() {
  return variants_of(Fp16x3AsyncTiles(), {""},
                     variants_of(Fp16x3FewRowsTiles(),
                                 {" of 8", " of 16", " of 24", " of 32", " of 8 in clusters",
                                  " of 16 in clusters", " of 24 in clusters", " of 32 in clusters"},
                                 variants_of(Fp16x3Tiles())));
}
int variant_of(const Fp16x3Plan& plan, int64_t few) {
  if (plan.kernel == Fp16x3Kernel::FewRows)
    return FP16X3_TILE_COUNT + FEW_ROWS_MANNERS * plan.tile + (plan.cluster_p > 1 ? 4 : 0) +
           static_cast<int>(std::max<int64_t>(few_rows_tiles(few), 1)) - 1;
  if (plan.kernel == Fp16x3Kernel::Async)
    return FP16X3_TILE_COUNT + FEW_ROWS_MANNERS * Fp16x3FewRowsTiles::COUNT + plan.tile;
  return plan.tile;
}

// By few_rows.cu a cluster shares K out, and a band of P is read once.
// What stores of single elements touch of C, where its rows are no whole vectors along Q: an
// instruction stores 32 elements of a row, or 16 of each of two columns (fp16x3_store.cuh).
double lines_of_single_stores(const Problem& problem, const Sides& sides) {
  if (sides.c_q == 1 && problem.c.alignment == 16) return 0;
  const int64_t size = size_of(problem.epilogue.out_dtype);
  return sides.c_q == 1 ? store_lines_of(problem, 1, 31 * size)
                        : store_lines_of(problem, 2, 15 * size);
}

Demand demand_of_way(const Problem& asked, const Fp16x3Plan& way) {
  const Problem problem = average_of(asked);
  const Fp16x3TileInfo tile = tile_of(way);
  Sides sides = sides_of(problem, way.swap_ab);
  const bool as_it_lies = way.kernel == Fp16x3Kernel::Direct || way.kernel == Fp16x3Kernel::FewRows;
  if (!as_it_lies) sides.p = planes_of_p(sides.p, way);
  sides.q = planes_of_q(sides.q, way);
  const int variant = variant_of(way, sides.q.rows);
  if (way.kernel != Fp16x3Kernel::FewRows) {
    Demand d = demand_of(problem, sides, tile.block_p, tile.block_q, variant, tile.blocks_per_sm,
                         /*splits=*/false, way.cluster_p, way.cluster_q);
    d.stream_k = way.stream_k;
    d.store_lines = lines_of_single_stores(problem, sides);
    return d;
  }
  const int resident = FEW_ROWS_THREADS / static_cast<int>(tile.threads);
  Demand d = demand_of(problem, sides, FEW_ROWS_BLOCK_P, std::max<int64_t>(1, sides.q.rows),
                       variant, resident);
  // A block's warps take chunks in turn, as often as its slots are used.
  const int cluster = way.cluster_p;
  const int64_t chunks = blocks_over(problem.k, int64_t{FEW_ROWS_CHUNK} * cluster);
  const int64_t warps = tile.threads / 32;
  d.cluster_k = static_cast<int16_t>(cluster);
  d.ends = static_cast<double>(blocks_over(chunks, std::max(1, way.block.slots)));
  d.units *= cluster;
  d.depth = static_cast<double>(blocks_over(chunks, warps) * warps * FEW_ROWS_CHUNK);
  // Chunks without slots of their own are all taken once more where a row has one that its own
  // scale does not suit; and of so many chunks, some row of 32 does.
  if (way.block.slots < chunks)
    d.ends *= 2, d.depth *= 2, d.loaded_bytes *= 2, d.off_sector_bytes *= 2;
  return d;
}

Step product_of(const Problem& problem, const Fp16x3Plan& way) {
  const Fp16x3TileInfo tile = tile_of(way);
  const bool few_rows = way.kernel == Fp16x3Kernel::FewRows;
  const bool block_a_tile = way.kernel == Fp16x3Kernel::Async && !is_grouped(problem);
  const int64_t blocks =
      block_a_tile ? most_tiles(problem, tile.block_p, tile.block_q) : std::max(way.blocks, 1);
  Step step =
      product_step(tile.threads, blocks, few_rows ? way.block.shared_bytes : tile.shared_bytes);
  const int cluster = way.cluster_p * way.cluster_q;
  if (!block_a_tile && (cluster > 1 || !few_rows)) step.cluster = static_cast<int8_t>(cluster);
  // Blocks of the other kernels go through all entries.
  if (few_rows || block_a_tile)
    step.grid_y = static_cast<int32_t>(std::min(problem.batch, MAX_GRID_Y));
  return step;
}

Step guard_step(const Problem& problem, const DeviceInfo& device, bool computes_all) {
  // Most often they find nothing to do: then the fewer, the sooner they have.
  const int64_t places = int64_t{computes_all ? 2 : 1} * device.multiprocessors;
  Step step{};
  step.work = Work::Guard;
  step.threads_x = GUARD_THREADS, step.threads_y = step.grid_y = 1;
  step.grid_x = std::min(guard_squares(problem).count(), places);
  return step;
}

// For batch entries that differ (one where all are alike). What is zero before all else lies from
// Area::Guard to Area::Squares.
void take_areas(Plan& plan, const Problem& problem, const Fp16x3Plan& way) {
  const bool few_rows = way.kernel == Fp16x3Kernel::FewRows;
  const Sides sides = sides_of(problem, way.swap_ab);
  const auto take = [&](Area area, int64_t bytes) { plan.take(area, workspace_aligned(bytes)); };
  const int64_t p_entries = entries_of(sides.p, problem.batch);
  const int64_t q_entries = entries_of(sides.q, problem.batch);
  const int64_t groups = groups_of_k(problem);  // each with scales of its own
  const int64_t scales_p = groups > 0 ? groups : p_entries;
  const int64_t scales_q = groups > 0 ? groups : q_entries;
  // Few rows and the direct kernel read P as it lies.
  if (way.kernel == Fp16x3Kernel::Planes || way.kernel == Fp16x3Kernel::Async)
    take(Area::P, p_entries * 2 * planes_of_p(sides.p, way).batch_stride * 2);
  take(Area::Q, q_entries * (few_rows ? few_rows_bytes(sides.q.rows, problem.k)
                                      : 2 * planes_of_q(sides.q, way).batch_stride * 2));
  if (!few_rows) take(Area::ScalesP, scales_p * sides.p.rows * 8);
  take(Area::ScalesQ, scales_q * sides.q.rows * 8);
  const SplitJob split_p = split_job(problem, way, /*of_q=*/false);
  const SplitJob split_q = split_job(problem, way, /*of_q=*/true);
  if (!few_rows)
    take(Area::RangesP, range_bytes(split_p)), take(Area::RangesQ, range_bytes(split_q));
  const int64_t squares = guard_squares(problem).count();
  take(Area::Guard, (2 + squares) * 4);
  take(Area::Words, way.stream_k ? hand_over_words_bytes(way.blocks) : 0);
  if (!few_rows)
    take(Area::PanelsP, panel_bytes(split_p)), take(Area::PanelsQ, panel_bytes(split_q));
  take(Area::Squares, squares * 4);
  take(Area::Marks, squares * GUARD_MARK_BYTES);
  // Totals, or sums that are handed over: a tile for each block.
  const bool has_totals = way.stream_k || (segment_count(problem.k) > 1 && !few_rows);
  const Fp16x3TileInfo tile = tile_of(way);
  plan.take(Area::Totals, has_totals ? int64_t{way.blocks} * tile.block_p * tile.block_q * 4 : 0);
}

Plan plan(const Problem& problem, const DeviceInfo& device, const Way& chosen) {
  const Fp16x3Plan way = chosen.as<Fp16x3Plan>();
  const Fp16x3TileInfo tile = tile_of(way);
  Plan plan = plan_of(Algo::Fp16x3, chosen, problem, way.swap_ab, tile.block_p, tile.block_q,
                      /*block_k=*/64);  // 128 bytes of the parts
  const bool multiplies = problem.k >= fp16x3_least_k(way.coarse);
  if (multiplies) {
    take_areas(plan, problem, way);
    add_splits(plan, problem, way);
    Step product = product_of(problem, way);
    product.workspace_bytes = plan.workspace_bytes - plan.at(Area::Squares);
    plan.add(product);
  }
  plan.add(guard_step(problem, device, !multiplies));
  plan.demand = demand_of_way(problem, way);
  return plan;
}

NamedWay name(const Problem&, const Way& way) {
  const Fp16x3Plan plan = way.as<Fp16x3Plan>();
  return named_way(tile_name_of(plan), plan, plan.stream_k);
}

}  // namespace

extern const Rung Fp16x3Rung = {Algo::Fp16x3,     Use::Chosen, &supports, &ways,       &plan,
                                &describe_fp16x3, &name,       &variants, TAKES_GROUPS};

}  // namespace tiled
