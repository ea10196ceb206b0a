// Rung mma_tile as the planner sees it: one tile for 16 bits and tf32, and in fp64, where it
// computes the chains of Arithmetic::Fma, three.
#include <algorithm>

#include "cuda/plan/kernel_name.h"
#include "cuda/plan/rung.h"
#include "cuda/plan/tile_name.h"
#include "cuda/plan/tma.h"
#include "cuda/rungs/4_mma_tile/tiles.h"
#include "cuda/rungs/4_mma_tile/way.h"

namespace tiled {
namespace {

// fp64 on tensor cores. The cycles of a step are what was measured on an H200
// (bench/results/h200_fp64.json): of a block whose multiprocessor is full (128 multiply-adds a
// cycle at best), and alone there. Before and after the steps it fills its stages and writes its
// part of C, at its share of the memory's speed.
template <typename Tile>
constexpr Candidate fp64_tile(double busy, double alone) {
  constexpr double START = 2000, STORE = 18;  // cycles; bytes a cycle and multiprocessor
  Candidate candidate = candidate_of<Tile>(busy, alone);
  candidate.start = START + Tile::BLOCK_M * Tile::BLOCK_N * 8 / STORE;
  candidate.tensor_cores = true;
  return candidate;
}
constexpr Candidate FP64_TABLE[] = {fp64_tile<Fp64Tiles::Large>(2210, 2210),
                                    fp64_tile<Fp64Tiles::Medium>(600, 1090),
                                    fp64_tile<Fp64Tiles::Small>(460, 460)};
constexpr TileSize SIZES[] = {TileSize::Large, TileSize::Medium, TileSize::Small};

bool is_fp64(const Problem& problem) { return problem.dtype == DType::Float64; }

// Whether copying an operand first, as hopper would, costs more than this rung's slow loads.
bool is_small_and_unaligned(const Problem& problem) {
  const bool ready = tma_reads(side_a(problem), problem) && tma_reads(side_b(problem), problem);
  return !ready && problem.m <= 128 && problem.n <= 128 && problem.k <= 256;
}

bool supports(const Problem& problem, const DeviceInfo& device) {
  if (!device.hopper_kernels) return false;
  if (is_fp64(problem))
    return is_of_chains(problem, device) &&
           std::any_of(std::begin(FP64_TABLE), std::end(FP64_TABLE),
                       [&](const Candidate& c) { return can_launch(c, problem, device); });
  return is_of_wgmma(problem.arithmetic) && grid_fits(problem, MmaTile::ROWS, MmaTile::ROWS);
}

void ways(const Problem& problem, const DeviceInfo& device, Consider consider) {
  if (!is_fp64(problem)) {
    consider(Way(), is_small_and_unaligned(problem) ? 0 : LAST_RESORT);
    return;
  }
  Fp64Way way{};
  way.access = {copied_access_of(side_a(problem)), copied_access_of(side_b(problem))};
  for (int i = 0; i < 3; ++i) {
    if (!can_launch(FP64_TABLE[i], problem, device)) continue;
    way.tile = SIZES[i];
    consider(Way(way), cycles_of(FP64_TABLE[i], problem, device));
  }
}

Plan plan(const Problem& problem, const DeviceInfo&, const Way& way) {
  if (is_fp64(problem)) {
    const Candidate& candidate = FP64_TABLE[static_cast<int>(way.as<Fp64Way>().tile)];
    Plan plan = plan_of(Algo::MmaTile, candidate, problem, way, /*dynamic=*/true);
    add_totals(plan, problem);
    return plan;
  }
  const int32_t block_k = MmaTile::WORDS * 4 / static_cast<int32_t>(size_of(problem.dtype));
  const Candidate candidate = {
      MmaTile::ROWS, MmaTile::ROWS, block_k, MmaTile::THREADS, 1, MmaTile::SHARED_BYTES, 1, 0, 0};
  return plan_of(Algo::MmaTile, candidate, problem, way);
}

// In JSON, of fp64: access, as register_tile's.
Description describe(const Problem& problem, const DeviceInfo&, const Plan& plan) {
  Description d;
  if (!is_fp64(problem)) {
    // Who owns which elements is the instruction's doing: pairs of columns in two rows of every 8.
    d.kernel = std::string("mma_tile<") + element_type(problem.dtype) + ">";
    d.thread_m = 4, d.thread_n = 8;
    return d;
  }
  const Fp64Way way = plan.way.as<Fp64Way>();
  const TileInfo tile = tile_info_of<Fp64Tiles>(way.tile);
  d.tile = tile.name;
  d.thread_m = tile.thread_m, d.thread_n = tile.thread_n;
  d.kernel = "mma_tile_fp64<" + d.tile + ", " + major_names(side_a(problem), side_b(problem)) + ">";
  d.lines.emplace_back("reads", text_of(way.access));
  d.json.emplace_back("access", json_of(way.access));
  return d;
}

}  // namespace

extern const Rung MmaTileRung = {Algo::MmaTile, &supports, &ways, &plan, &describe};

}  // namespace tiled
