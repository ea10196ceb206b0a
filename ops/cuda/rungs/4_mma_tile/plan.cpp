// Rung mma_tile as the planner sees it: one tile for 16 bits and tf32, and in fp64, where it
// computes the chains of Arithmetic::Fma, several, whole or cut in time.
#include <algorithm>

#include "core/text.h"
#include "cuda/parts/wrapped_plan.h"
#include "cuda/plan/describe.h"
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
// In the order of Fp64Tiles.
constexpr Candidate FP64_TABLE[] = {
    fp64_tile<Fp64Tile128x128>(2216, 2216), fp64_tile<Fp64Tile128x64>(1158, 1158),
    fp64_tile<Fp64Tile64x64>(603, 719), fp64_tile<Fp64Pair128x64>(1140, 1400),
    fp64_tile<Fp64Tile32x64>(460, 460)};
static_assert(std::size(FP64_TABLE) == Fp64Tiles::COUNT, "a line for each tile");
// Of latencies, where other blocks read the same and so bring it to L2: these are measured with a
// weight that comes from memory past few rows.
constexpr double FROM_L2 = 0.89;
constexpr int64_t FEW_ROWS = 64;
// In the order of Fp64WrappedTiles; fitted, as the pair's cycles, to an H100's times
// (bench/results/h100/fp64_ways.txt). A tile's is with its part of C, which whole tiles have in
// their start.
constexpr WrappedCosts WRAPPED_COSTS[] = {
    {5900, 500, 7400, 1.024, 0}, {10700, 500, 4000, 1.027, 0}, {13200, 500, 0, 1.06, 0}};
static_assert(std::size(WRAPPED_COSTS) == Fp64WrappedTiles::COUNT, "a line for each tile");

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

// consider(way, cycles) for every way in fp64.
template <typename Function>
void for_fp64_ways(const Problem& problem, const DeviceInfo& device, Function consider) {
  Fp64Way way{};
  way.access = {copied_access_of(side_a(problem)), copied_access_of(side_b(problem))};
  for (int tile = 0; tile < Fp64Tiles::COUNT; ++tile) {
    Candidate candidate = FP64_TABLE[tile];
    if (!can_launch(candidate, problem, device)) continue;
    if (std::min(problem.m, problem.n) > FEW_ROWS) candidate.latency *= FROM_L2;
    way.tile = static_cast<int8_t>(tile);
    way.blocks = 0;
    for (int share = 0; share <= gains_by_sharing(candidate, problem, device); ++share) {
      way.shares_segments = share;
      consider(way, cycles_of(candidate, problem, device, share));
    }
    way.shares_segments = false;
    if (tile >= Fp64WrappedTiles::COUNT) continue;
    way.blocks = wrapping_blocks(candidate, problem, device, MOST_CUT_ROUNDS);
    if (way.blocks > 0)
      consider(way, wrapped_cycles(candidate, problem, device, way.blocks, WRAPPED_COSTS[tile]));
  }
}

void ways(const Problem& problem, const DeviceInfo& device, Consider consider) {
  if (!is_fp64(problem)) {
    consider(Way(), is_small_and_unaligned(problem) ? 0 : LAST_RESORT);
    return;
  }
  for_fp64_ways(problem, device,
                [&](const Fp64Way& way, double cycles) { consider(Way(way), cycles); });
}

Plan plan(const Problem& problem, const DeviceInfo&, const Way& way) {
  if (is_fp64(problem)) {
    const Fp64Way chosen = way.as<Fp64Way>();
    Plan plan = plan_of(Algo::MmaTile, FP64_TABLE[chosen.tile], problem, way, /*dynamic=*/true);
    if (chosen.blocks == 0) {
      chosen.shares_segments ? add_sums(plan, problem) : add_totals(plan, problem);
      return plan;
    }
    const Step product = plan.main_step();
    plan.step_count = 0;
    add_wrapped(plan, product, problem.dtype, chosen.blocks, 0);
    return plan;
  }
  const int32_t block_k = MmaTile::WORDS * 4 / static_cast<int32_t>(size_of(problem.dtype));
  const Candidate candidate = {
      MmaTile::ROWS, MmaTile::ROWS, block_k, MmaTile::THREADS, 1, MmaTile::SHARED_BYTES, 1, 0, 0};
  return plan_of(Algo::MmaTile, candidate, problem, way);
}

template <typename... Tiles>
constexpr TileInfo tile_info_of(TileList<Tiles...>, int tile) {
  constexpr TileInfo INFOS[] = {tiled::tile_info_of<Tiles>()...};
  return INFOS[tile];
}

std::string name_of(const Fp64Way& way) {
  return std::string(tile_name_of(Fp64Tiles(), way.tile)) + (way.blocks > 0 ? " cut" : "");
}

// In JSON, of fp64: access, wraps_around and shares_segments, as register_tile's; and mma_tile,
// {estimates: [{way, cycles}]} of every way.
Description describe(const Problem& problem, const DeviceInfo& device, const Plan& plan) {
  Description d;
  if (!is_fp64(problem)) {
    // Who owns which elements is the instruction's doing: pairs of columns in two rows of every 8.
    d.kernel = std::string("mma_tile<") + element_type(problem.dtype) + ">";
    d.thread_m = 4, d.thread_n = 8;
    return d;
  }
  const Fp64Way way = plan.way.as<Fp64Way>();
  const TileInfo tile = tile_info_of(Fp64Tiles(), way.tile);
  d.tile = tile.name;
  d.thread_m = tile.thread_m, d.thread_n = tile.thread_n;
  d.kernel = (way.blocks > 0 ? "mma_tile_fp64_wrapped<" : "mma_tile_fp64<") + d.tile + ", " +
             major_names(side_a(problem), side_b(problem)) + ">";
  describe_wrapped(d, way.blocks);
  d.lines.emplace_back("reads", text_of(way.access));
  d.json.emplace_back("access", json_of(way.access));
  std::vector<std::string> list;
  for_fp64_ways(problem, device, [&](const Fp64Way& other, double cycles) {
    list.push_back(Object()
                       .text("way", name_of(other))
                       .truth("shares_segments", other.shares_segments)
                       .real("cycles", cycles)
                       .str());
  });
  d.json.emplace_back("mma_tile", Object().json("estimates", array_of(list)).str());
  describe_sharing(d, way.shares_segments);
  return d;
}

std::optional<NamedWay> name(const Problem&, const Way& way) {
  if (!way.is<Fp64Way>()) return std::nullopt;  // there is one
  const Fp64Way chosen = way.as<Fp64Way>();
  return named_way(name_of(chosen), /*exchanged=*/false, chosen.shares_segments);
}

}  // namespace

extern const Rung MmaTileRung = {Algo::MmaTile, &supports, &ways, &plan, &describe, &name};

}  // namespace tiled
