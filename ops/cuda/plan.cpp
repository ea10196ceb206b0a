// The choice of rung, tile and access, by a small model of the time.
#include "cuda/plan.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <type_traits>

#include "cuda/access.h"
#include "cuda/fp16x3_plan.h"
#include "cuda/hopper_layout.h"
#include "cuda/tensor_plan.h"
#include "cuda/tiles.h"

namespace tiled {
namespace {

static_assert(std::is_trivially_copyable_v<Plan> && std::is_standard_layout_v<Plan>,
              "a plan is plain data, cheap to make and to memoise");

// One way to launch a rung, with the model's view of it. The model knows one step of one block
// (BLOCK_K values of k): how long it keeps a multiprocessor's units busy, and how long it takes
// from its first load to its last barrier when the block is alone there. The figures are cycles of
// compute capability 9.0 and fp32; they only have to put the candidates in the right order.
struct Candidate {
  Algo algo;
  TileSize tile;
  int32_t block_m, block_n, block_k;
  int32_t threads_x, threads_y;
  int64_t shared_bytes;
  int32_t resident;  // blocks that one multiprocessor holds
  double busy;       // cycles of a step
  double latency;    // cycles of a step
  double start = 0;  // cycles before the first step
  bool async = false;
};

constexpr double LOAD_LATENCY = 600;     // cycles from global memory
constexpr double BARRIER_LATENCY = 100;  // cycles, with the stores to shared memory before it
constexpr int THREADS_IN_FLIGHT = 2048;  // of one multiprocessor
constexpr int BLOCKS_IN_FLIGHT = 32;

constexpr Candidate naive() {
  // Requested by name only, so the model need not know it.
  return {Algo::Naive, TileSize::Large, 16, 16, 1, 16, 16, 0, 8, 0, 0};
}

// A warp takes a row of B's tile for every k and an element of A's for every k, four of them in one
// load: 1.25 cycles of shared memory for a multiply-add. `cycles` is what was measured on an H200
// for 4-byte accumulators, barriers and the stores to shared memory included.
template <int WIDTH, int ACC_BYTES>
constexpr Candidate shared_tile(Algo algo, double cycles) {
  constexpr int THREADS = WIDTH * WIDTH;
  const double busy = THREADS / WARP_SIZE * WIDTH * cycles * (ACC_BYTES / 4);
  return {algo,
          TileSize::Large,
          WIDTH,
          WIDTH,
          WIDTH,
          WIDTH,
          WIDTH,
          int64_t{2} * THREADS * ACC_BYTES,
          std::min(THREADS_IN_FLIGHT / THREADS, BLOCKS_IN_FLIGHT),
          busy,
          LOAD_LATENCY + BARRIER_LATENCY + busy};
}

// A warp does THREAD_M * THREAD_N multiply-adds for each k and loads THREAD_M + THREAD_N values in
// vectors of 16 bytes, which take four cycles each; there are four schedulers. The load from global
// memory runs beside the computation.
template <typename Tile>
constexpr Candidate register_tile(TileSize tile) {
  constexpr double MULTIPLY_ADDS = Tile::THREAD_M * Tile::THREAD_N * (Tile::ACC_BYTES / 4);
  constexpr double LOADS = 4.0 * (Tile::THREAD_M + Tile::THREAD_N) / Tile::VECTOR;
  constexpr double BUSY = Tile::THREADS / WARP_SIZE * Tile::BLOCK_K * (MULTIPLY_ADDS + LOADS) / 4;
  return {Algo::RegisterTile,
          tile,
          Tile::BLOCK_M,
          Tile::BLOCK_N,
          Tile::BLOCK_K,
          Tile::THREADS,
          1,
          Tile::SHARED_BYTES,
          Tile::BLOCKS_PER_SM,
          BUSY,
          std::max(LOAD_LATENCY, BUSY) + BARRIER_LATENCY};
}

// With cp.async the loads of STAGES - 1 steps are under way together, but a thread whose patch is
// small waits for its values from shared memory. The first step begins when the first loads have
// arrived and the long program has found its way into the instruction cache.
template <typename Tile>
constexpr Candidate register_tile_async(TileSize tile) {
  constexpr double SHARED_LATENCY = 35, START = 2000;  // cycles
  constexpr double WORK = Tile::THREAD_M * Tile::THREAD_N + Tile::THREAD_M + Tile::THREAD_N;
  Candidate candidate = register_tile<Tile>(tile);
  candidate.latency =
      std::max(LOAD_LATENCY / (Tile::STAGES - 1), Tile::BLOCK_K * std::max(WORK, SHARED_LATENCY)) +
      BARRIER_LATENCY;
  candidate.start = START;
  candidate.async = true;
  return candidate;
}

// fp64 on tensor cores. The cycles of a step are what was measured on an H200: of a block whose
// multiprocessor is full (128 multiply-adds a cycle at best), and alone there. Before and after the
// steps it fills its stages and writes its part of C, at its share of the memory's speed.
template <typename Tile>
constexpr Candidate mma_tile_fp64(TileSize tile, double busy, double alone) {
  constexpr double START = 2000, STORE = 18;  // cycles; bytes a cycle and multiprocessor
  return {Algo::MmaTile,
          tile,
          Tile::BLOCK_M,
          Tile::BLOCK_N,
          Tile::BLOCK_K,
          Tile::THREADS,
          1,
          Tile::SHARED_BYTES,
          Tile::BLOCKS_PER_SM,
          busy,
          alone,
          START + Tile::BLOCK_M * Tile::BLOCK_N * 8 / STORE};
}

// What there is to choose from, in the order of the ladder.
struct Candidates {
  const Candidate* first;
  int count;
  const Candidate* begin() const { return first; }
  const Candidate* end() const { return first + count; }
};

template <int ACC_BYTES>
constexpr Candidate TABLE[] = {
    naive(),
    shared_tile<8, ACC_BYTES>(Algo::SharedTile8, 3.3),
    shared_tile<16, ACC_BYTES>(Algo::SharedTile16, 2.1),
    shared_tile<32, ACC_BYTES>(Algo::SharedTile32, 1.75),
    register_tile<typename RegisterTilesFor<ACC_BYTES>::Small>(TileSize::Small),
    register_tile<typename RegisterTilesFor<ACC_BYTES>::Medium>(TileSize::Medium),
    register_tile<typename RegisterTilesFor<ACC_BYTES>::Large>(TileSize::Large),
};

// fp32 where cp.async exists.
constexpr Candidate ASYNC_TABLE[] = {
    TABLE<4>[0],
    TABLE<4>[1],
    TABLE<4>[2],
    TABLE<4>[3],
    register_tile_async<AsyncTiles::Small>(TileSize::Small),
    register_tile_async<AsyncTiles::Medium>(TileSize::Medium),
    register_tile_async<AsyncTiles::Large>(TileSize::Large),
};

// fp64 on compute capability 9.0.
constexpr Candidate FP64_TABLE[] = {
    TABLE<8>[0],
    TABLE<8>[1],
    TABLE<8>[2],
    TABLE<8>[3],
    TABLE<8>[4],
    TABLE<8>[5],
    TABLE<8>[6],
    mma_tile_fp64<Fp64Tiles::Small>(TileSize::Small, 460, 460),
    mma_tile_fp64<Fp64Tiles::Medium>(TileSize::Medium, 600, 1090),
    mma_tile_fp64<Fp64Tiles::Large>(TileSize::Large, 2210, 2210),
};

template <size_t COUNT>
constexpr bool blocks_are_powers_of_two(const Candidate (&candidates)[COUNT]) {
  for (const Candidate& c : candidates)
    for (int32_t block : {c.block_m, c.block_n, c.block_k})
      if ((block & (block - 1)) != 0) return false;
  return true;
}
static_assert(blocks_are_powers_of_two(TABLE<4>) && blocks_are_powers_of_two(TABLE<8>) &&
                  blocks_are_powers_of_two(TABLE<16>) && blocks_are_powers_of_two(ASYNC_TABLE) &&
                  blocks_are_powers_of_two(FP64_TABLE),
              "tiles_over() counts by shifts");

Candidates candidates_for(const Problem& problem, const DeviceInfo& device) {
  const auto all = [](const auto& table) {
    return Candidates{table, static_cast<int>(std::size(table))};
  };
  if (problem.dtype == DType::Float32 && device.capability >= 80) return all(ASYNC_TABLE);
  if (problem.dtype == DType::Float64 && device.capability == 90) return all(FP64_TABLE);
  switch (accumulator_bytes(problem.dtype)) {
    case 4: return all(TABLE<4>);
    case 8: return all(TABLE<8>);
    default: return all(TABLE<16>);
  }
}

// Tiles that cover `size` elements. Blocks are powers of two, so no division is needed on the way
// of every call; and no size overflows, unlike (size + block - 1) / block.
int64_t tiles_over(int64_t size, int32_t block) {
  return (size >> __builtin_ctz(block)) + ((size & (block - 1)) != 0);
}

int64_t tiles_of(const Candidate& candidate, const Problem& problem) {
  return saturating_product(tiles_over(problem.m, candidate.block_m),
                            tiles_over(problem.n, candidate.block_n));
}

// What every rung so far asks of a problem.
bool computes(const Problem& problem, const DeviceInfo& device) {
  const bool wants_fp64 = problem.dtype == DType::Float64 || problem.dtype == DType::Complex128;
  return problem.arithmetic == Arithmetic::Fma && problem.epilogue.identity() &&
         !(wants_fp64 && device.fp64_flops == 0);
}

bool can_launch(const Candidate& candidate, const Problem& problem, const DeviceInfo& device) {
  return candidate.threads_x * candidate.threads_y <= device.threads_per_block &&
         candidate.shared_bytes <= device.shared_bytes_per_block &&
         tiles_of(candidate, problem) <= MAX_GRID_X;
}

// Which operands register_tile copies one element at a time where it has a choice (async).
struct Singly {
  bool a, b;
};

// Cycles until the busiest multiprocessor has done its share of the blocks.
double cycles(const Candidate& candidate, const Problem& problem, const DeviceInfo& device,
              Singly singly) {
  constexpr double SINGLE = 0.1;  // for each element that a step copies singly
  const double singles = candidate.async
                             ? SINGLE * candidate.block_k *
                                   (singly.a * candidate.block_m + singly.b * candidate.block_n)
                             : 0;
  const double blocks =
      static_cast<double>(tiles_of(candidate, problem)) * static_cast<double>(problem.batch);
  const double share = std::ceil(blocks / device.multiprocessors);
  const double waves = std::ceil(share / candidate.resident);
  const double steps = static_cast<double>(tiles_over(problem.k, candidate.block_k));
  return steps *
             std::max(share * (candidate.busy + singles), waves * (candidate.latency + singles)) +
         waves * candidate.start;
}

Singly singly_copied(const Problem& problem) {
  return {async_access_of(side_a(problem), problem.batch) == Access::Elements,
          async_access_of(side_b(problem), problem.batch) == Access::Elements};
}

// Cycles of copying an operand to where register_tile reads vectors: every element is read and
// written, at 0.72 of the memory's rate on an H200, and another kernel is launched.
double transposing_cycles(const Side& side, const Problem& problem, const DeviceInfo& device) {
  constexpr double START = 4000, RATE = 0.72;  // cycles; of memory_bandwidth
  const double clock = device.fp32_flops / (256.0 * device.multiprocessors);
  const double bytes = 2.0 * size_of(problem.dtype) * static_cast<double>(side.rows) *
                       static_cast<double>(side.k) *
                       static_cast<double>(entries_of(side, problem.batch));
  return START + bytes / (RATE * device.memory_bandwidth) * clock;
}

// Access of an async plan, and which operands are transposed first: those whose single copies would
// take longer than the pass. Its kernel is built for 9.0 only.
void choose_async_access(const Candidate& candidate, const Problem& problem,
                         const DeviceInfo& device, Plan& plan) {
  const auto takes_longer = [&](const Side& side, Singly singly, Singly by_vectors) {
    const double gain =
        cycles(candidate, problem, device, singly) - cycles(candidate, problem, device, by_vectors);
    return gain > transposing_cycles(side, problem, device) &&
           !overlaps_itself(side, problem.batch);
  };
  const Side a = side_a(problem), b = side_b(problem);
  Singly singly = singly_copied(problem);
  if (device.capability == 90) {
    plan.transpose_a = singly.a && takes_longer(a, singly, {false, singly.b});
    singly.a &= !plan.transpose_a;
    plan.transpose_b = singly.b && takes_longer(b, singly, {singly.a, false});
    singly.b &= !plan.transpose_b;
  }
  plan.access_a = singly.a ? Access::Elements : Access::AlongMN;
  plan.access_b = singly.b ? Access::Elements : Access::AlongMN;
  if (plan.transpose_a) plan.workspace_bytes += workspace_aligned(transposed_bytes(a, problem));
  if (plan.transpose_b) plan.workspace_bytes += workspace_aligned(transposed_bytes(b, problem));
}

Plan plan_of(const Candidate& candidate, const Problem& problem, const DeviceInfo& device) {
  Plan plan{};
  plan.algo = candidate.algo;
  plan.tile = candidate.tile;
  plan.async = candidate.async;
  plan.access_a = plan.access_b = Access::Elements;
  if (candidate.async)
    choose_async_access(candidate, problem, device, plan);
  else if (candidate.algo == Algo::RegisterTile)
    choose_access(problem, plan);
  else if (candidate.algo == Algo::MmaTile) {
    plan.access_a = copied_access_of(side_a(problem), problem.batch);
    plan.access_b = copied_access_of(side_b(problem), problem.batch);
  }
  plan.block_m = candidate.block_m;
  plan.block_n = candidate.block_n;
  plan.block_k = candidate.block_k;
  plan.threads_x = candidate.threads_x;
  plan.threads_y = candidate.threads_y;
  plan.tiles_m = tiles_over(problem.m, candidate.block_m);
  plan.tiles_n = tiles_over(problem.n, candidate.block_n);
  plan.grid_x = saturating_product(plan.tiles_m, plan.tiles_n);
  plan.grid_y = static_cast<int32_t>(std::min(problem.batch, MAX_GRID_Y));
  plan.shared_bytes = candidate.shared_bytes;
  return plan;
}

// The fastest candidate that can be launched and that `wanted` lets through; the last of the table
// if there is none.
template <typename Wanted>
Plan fastest(const Problem& problem, const DeviceInfo& device, Wanted wanted) {
  const Candidates candidates = candidates_for(problem, device);
  const Singly singly = singly_copied(problem);
  const Candidate* best = candidates.end() - 1;
  double best_cycles = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : candidates) {
    if (!wanted(candidate.algo) || !can_launch(candidate, problem, device)) continue;
    const double candidate_cycles = cycles(candidate, problem, device, singly);
    if (candidate_cycles > best_cycles) continue;  // a tie goes to the higher rung
    best = &candidate;
    best_cycles = candidate_cycles;
  }
  return plan_of(*best, problem, device);
}

}  // namespace

bool supports(Algo algo, const Problem& problem, const DeviceInfo& device) {
  if (problem.arithmetic == Arithmetic::Fp16x3)
    return algo == Algo::Fp16x3 && fp16x3_supports(problem, device);
  if (on_tensor_cores(problem.arithmetic)) return tensor_supports(algo, problem, device);
  if (!computes(problem, device)) return false;
  const Candidates candidates = candidates_for(problem, device);
  return std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
    return candidate.algo == algo && can_launch(candidate, problem, device);
  });
}

std::vector<Algo> supported_algos(const Problem& problem, const DeviceInfo& device) {
  std::vector<Algo> algos;
  for (Algo algo : ALL_ALGOS)
    if (supports(algo, problem, device)) algos.push_back(algo);
  return algos;
}

Plan make_plan(const Problem& problem, const DeviceInfo& device) {
  if (problem.arithmetic == Arithmetic::Fp16x3) return make_fp16x3_plan(problem, device);
  if (on_tensor_cores(problem.arithmetic)) return make_tensor_plan(problem, device);
  return fastest(problem, device, [](Algo algo) { return algo != Algo::Naive; });
}

Plan make_plan(const Problem& problem, const DeviceInfo& device, Algo algo) {
  if (problem.arithmetic == Arithmetic::Fp16x3) return make_fp16x3_plan(problem, device);
  if (on_tensor_cores(problem.arithmetic)) return make_tensor_plan(problem, device, algo);
  return fastest(problem, device, [algo](Algo candidate) { return candidate == algo; });
}

}  // namespace tiled
