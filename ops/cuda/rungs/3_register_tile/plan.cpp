// Rung register_tile as the planner sees it: three tiles for each size of accumulator, and three
// others for fp32 where cp.async exists.
#include <algorithm>

#include "core/text.h"
#include "cuda/parts/wrapped_plan.h"
#include "cuda/plan/chip_scale.h"
#include "cuda/plan/copies.h"
#include "cuda/plan/describe.h"
#include "cuda/plan/kernel_name.h"
#include "cuda/plan/rung.h"
#include "cuda/plan/tile_name.h"
#include "cuda/rungs/3_register_tile/tiles.h"
#include "cuda/rungs/3_register_tile/way.h"

namespace tiled {
namespace {

// A warp does THREAD_M * THREAD_N multiply-adds for each k and loads THREAD_M + THREAD_N values in
// vectors of 16 bytes, which take four cycles each; there are four schedulers. The load from global
// memory runs beside the computation.
template <typename Tile>
constexpr Candidate by_registers() {
  constexpr double MULTIPLY_ADDS = Tile::THREAD_M * Tile::THREAD_N * (Tile::ACC_BYTES / 4);
  constexpr double LOADS = 4.0 * (Tile::THREAD_M + Tile::THREAD_N) / Tile::VECTOR;
  constexpr double BUSY = Tile::THREADS / WARP_SIZE * Tile::BLOCK_K * (MULTIPLY_ADDS + LOADS) / 4;
  return candidate_of<Tile>(BUSY, std::max(LOAD_LATENCY, BUSY) + BARRIER_LATENCY);
}

// With cp.async the loads of STAGES - 1 steps are under way together, and it is the patches that a
// thread waits for, at each k. The first step begins when the first loads have arrived and the long
// program has found its way into the instruction cache. Fitted, as what follows, to 179 products on
// an H200 of every tile, cut and whole: 5 % off (root mean square), 18 % at most.
template <typename Tile>
constexpr Candidate by_async() {
  constexpr double BUSY = 1.06, WAITING = 1.14, BARRIER = 80, START = 5000;
  constexpr double WORK = Tile::THREAD_M * Tile::THREAD_N + Tile::THREAD_M + Tile::THREAD_N;
  Candidate candidate = by_registers<Tile>();
  candidate.busy *= BUSY;
  candidate.latency = WAITING * Tile::BLOCK_K * WORK + BARRIER;
  candidate.start = START;
  candidate.in_company = candidate.resident == 2;  // seen on an H200, and not with more
  return candidate;
}

constexpr TileSize SIZES[] = {TileSize::Large, TileSize::Medium, TileSize::Small};

// In the order of SIZES.
template <typename Tiles>
constexpr Candidate TABLE[] = {by_registers<typename Tiles::Large>(),
                               by_registers<typename Tiles::Medium>(),
                               by_registers<typename Tiles::Small>()};
constexpr Candidate ASYNC_TABLE[] = {by_async<AsyncTiles::Large>(), by_async<AsyncTiles::Medium>(),
                                     by_async<AsyncTiles::Small>()};

bool is_async(const Problem& problem, const DeviceInfo& device) {
  return problem.dtype == DType::Float32 && device.capability >= 80;
}

// function(tiles) with the dtype's three.
template <typename Function>
auto with_tiles(DType dtype, Function function) {
  switch (accumulator_bytes(dtype)) {
    case 4: return function(RegisterTilesFor<4>{});
    case 8:
      return is_complex(dtype) ? function(RegisterTilesFor<8, 16>{})
                               : function(RegisterTilesFor<8>{});
    default: return function(RegisterTilesFor<16, 32>{});
  }
}

const Candidate* table_of(const Problem& problem, const DeviceInfo& device) {
  if (is_async(problem, device)) return ASYNC_TABLE;
  return with_tiles(problem.dtype,
                    [](auto tiles) -> const Candidate* { return TABLE<decltype(tiles)>; });
}

// Which operands an async plan copies one element at a time.
struct Singly {
  bool a, b;
};

// With what its step takes for elements copied singly.
Candidate with(Candidate candidate, Singly singly) {
  constexpr double SINGLE = 0.1;  // for each element
  const double elements = static_cast<double>(candidate.block_k) *
                          (singly.a * candidate.block_m + singly.b * candidate.block_n);
  candidate.latency += SINGLE * elements;
  candidate.busy += SINGLE * elements;
  return candidate;
}

// Cycles of copying an operand to where register_tile reads vectors: every element is read and
// written, at 0.72 of the memory's rate on an H200, and another kernel is launched.
double transposing_cycles(const Side& side, const Problem& problem, const DeviceInfo& device) {
  constexpr double START = 4800, RATE = 0.72;  // an H200's cycles; of memory_bandwidth
  const double bytes = 2.0 * size_of(problem.dtype) * static_cast<double>(side.rows) *
                       static_cast<double>(side.k) *
                       static_cast<double>(entries_of(side, problem.batch));
  return START * scale_of(device).clock +
         bytes / (RATE * device.memory_bandwidth) * device.clock_hz;
}

// Access of an async way, and which operands are transposed first: those whose single copies would
// take longer than the pass, whose kernel is one of Hopper's. `cycles`: of the product, by what is
// copied singly. Returns those of all.
template <typename Cycles>
double choose_access(const Problem& problem, const DeviceInfo& device, RegisterTileWay& way,
                     Cycles cycles) {
  const Side a = side_a(problem), b = side_b(problem);
  Singly singly = {async_access_of(a) == Access::Elements, async_access_of(b) == Access::Elements};
  double transposing = 0;
  const auto choose = [&](const Side& side, bool& of_side) {
    if (!of_side || !device.hopper_kernels || overlaps_itself(side, problem.batch)) return false;
    const double pass = transposing_cycles(side, problem, device), with_it = cycles(singly);
    of_side = false;
    if (with_it - cycles(singly) > pass) {
      transposing += pass;
      return true;
    }
    of_side = true;
    return false;
  };
  way.transpose_a = choose(a, singly.a);
  way.transpose_b = choose(b, singly.b);
  way.access = {singly.a ? Access::Elements : Access::AlongMN,
                singly.b ? Access::Elements : Access::AlongMN};
  return transposing + cycles(singly);
}

// Whether tiles at C's edge, read from further back, lie in the matrix as a whole (read_from in
// parts/raster.cuh); the others' steps take longer.
bool are_whole(int64_t size, int64_t block) {
  const int64_t rest = size % block;
  return rest == 0 || (size > block && (block - rest) % AsyncTiles::Large::VECTOR == 0);
}
WrappedCosts wrapped_costs(const Candidate& candidate, const Problem& problem,
                           const DeviceInfo& device, int32_t blocks) {
  const bool whole =
      are_whole(problem.m, candidate.block_m) && are_whole(problem.n, candidate.block_n);
  // All blocks' 64 KiB of the large tile go out together, and come back; where a multiprocessor has
  // two of them it takes its time.
  const bool large = candidate.block_m * candidate.block_n > 64 * 64;
  const double hand_over = !large ? 2000 : blocks > device.multiprocessors ? 30000 : 8000;
  return {hand_over, 4000, 2000, 1.04, whole ? 0 : 0.4};
}

bool supports(const Problem& problem, const DeviceInfo& device) {
  const Candidate* table = table_of(problem, device);
  return is_of_chains(problem, device) &&
         std::any_of(table, table + 3, [&](const Candidate& candidate) {
           return can_launch(candidate, problem, device);
         });
}

void ways_of_async(const Problem& problem, const DeviceInfo& device, Consider consider) {
  for (int i = 0; i < 3; ++i) {
    const Candidate& candidate = ASYNC_TABLE[i];
    if (!can_launch(candidate, problem, device)) continue;
    RegisterTileWay way{};
    way.async = true;
    way.tile = SIZES[i];
    for (const bool share : {true, false}) {
      if (share && !gains_by_sharing(candidate, problem, device)) continue;
      way.shares_segments = share;
      const double whole = choose_access(problem, device, way, [&](Singly singly) {
        return cycles_of(with(candidate, singly), problem, device, share);
      });
      consider(Way(way), whole);
    }
    way.blocks = wrapping_blocks(candidate, problem, device);
    if (way.blocks == 0) continue;
    way.wraps_around = true;
    const double cut = choose_access(problem, device, way, [&](Singly singly) {
      return wrapped_cycles(with(candidate, singly), problem, device, way.blocks,
                            wrapped_costs(candidate, problem, device, way.blocks));
    });
    consider(Way(way), cut);
  }
}

void ways(const Problem& problem, const DeviceInfo& device, Consider consider) {
  if (is_async(problem, device)) return ways_of_async(problem, device, consider);
  const Candidate* table = table_of(problem, device);
  RegisterTileWay way{};
  way.access = vector_accesses_of(problem);
  const int sizes = accumulator_bytes(problem.dtype) > 4 ? 2 : 3;  // that differ (tiles.h)
  for (int i = 0; i < sizes; ++i) {
    if (!can_launch(table[i], problem, device)) continue;
    way.tile = SIZES[i];
    for (int share = 0; share <= gains_by_sharing(table[i], problem, device); ++share) {
      way.shares_segments = share;
      consider(Way(way), cycles_of(table[i], problem, device, share));
    }
  }
}

Plan plan(const Problem& problem, const DeviceInfo& device, const Way& chosen) {
  const RegisterTileWay way = chosen.as<RegisterTileWay>();
  const Candidate& candidate = table_of(problem, device)[static_cast<int>(way.tile)];
  Plan plan = plan_of(Algo::RegisterTile, candidate, problem, chosen);
  Step product = plan.main_step();
  plan.step_count = 0;
  Copies copies(problem);
  if (way.transpose_a) copies.add(side_a(problem), transposed(side_a(problem), problem));
  if (way.transpose_b) copies.add(side_b(problem), transposed(side_b(problem), problem));
  add_copies(plan, copies, problem);
  if (way.wraps_around) {
    add_wrapped(plan, product, problem.dtype, way.blocks, copies.bytes());
    return plan;
  }
  plan.add(product);
  if (way.shares_segments)
    add_sums(plan, problem);
  else
    add_totals(plan, problem);
  return plan;
}

TileInfo tile_of(DType dtype, const RegisterTileWay& way) {
  if (way.async) return tile_info_of<AsyncTiles>(way.tile);
  return with_tiles(dtype, [&](auto tiles) { return tile_info_of<decltype(tiles)>(way.tile); });
}

// In JSON:
//
//   access      {a, b}: "along_k", "along_mn" or "elements"
//   transposes  {a, b}: whether the operand is copied first, to lie along m or n, and then read so
//   wraps_around  whether tiles are cut in time, so that blocks have as much to do
//   shares_segments  whether blocks share out segments of K, whose sums another kernel adds
Description describe(const Problem& problem, const DeviceInfo&, const Plan& plan) {
  const RegisterTileWay way = plan.way.as<RegisterTileWay>();
  const TileInfo tile = tile_of(problem.dtype, way);
  Description d;
  d.tile = tile.name;
  d.thread_m = tile.thread_m, d.thread_n = tile.thread_n;
  d.kernel = (way.wraps_around ? "register_tile_wrapped<"
              : way.async      ? "register_tile_async<"
                               : std::string("register_tile<") + element_type(problem) + ", ") +
             d.tile + ", " + std::to_string(static_cast<int>(way.access.a)) + ", " +
             std::to_string(static_cast<int>(way.access.b));
  if (way.async && !way.wraps_around) d.kernel += way.shares_segments ? ", 1" : ", 0";
  d.kernel += ">";
  if (way.transpose_a) d.lines.emplace_back("transposes", "A first, to lie along m");
  if (way.transpose_b) d.lines.emplace_back("transposes", "B first, to lie along n");
  describe_wrapped(d, way.wraps_around ? way.blocks : 0);
  d.lines.emplace_back("reads", text_of(way.access));
  d.json.emplace_back("access", json_of(way.access));
  d.json.emplace_back("transposes",
                      Object().truth("a", way.transpose_a).truth("b", way.transpose_b).str());
  describe_sharing(d, way.shares_segments);
  return d;
}

// Such as "AsyncTile64x64", or "AsyncTile64x64 cut".
std::optional<NamedWay> name(const Problem& problem, const Way& way) {
  const RegisterTileWay chosen = way.as<RegisterTileWay>();
  return named_way(
      std::string(tile_of(problem.dtype, chosen).name) + (chosen.wraps_around ? " cut" : ""),
      /*exchanged=*/false, chosen.shares_segments);
}

}  // namespace

extern const Rung RegisterTileRung = {Algo::RegisterTile, &supports, &ways, &plan,
                                      &describe,          &name};

}  // namespace tiled
