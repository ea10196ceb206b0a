// The ways to launch the rungs of Arithmetic::Fma among which the planner chooses, and what its
// model of the time knows of each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "cuda/plan/plan.h"
#include "cuda/plan/tiles.h"

namespace tiled {

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

template <typename Tile>
constexpr Candidate named_tile(Algo algo, TileSize tile, double busy, double latency) {
  return {algo,          tile, Tile::BLOCK_M,      Tile::BLOCK_N,       Tile::BLOCK_K,
          Tile::THREADS, 1,    Tile::SHARED_BYTES, Tile::BLOCKS_PER_SM, busy,
          latency};
}

// A warp does THREAD_M * THREAD_N multiply-adds for each k and loads THREAD_M + THREAD_N values in
// vectors of 16 bytes, which take four cycles each; there are four schedulers. The load from global
// memory runs beside the computation.
template <typename Tile>
constexpr Candidate register_tile(TileSize tile) {
  constexpr double MULTIPLY_ADDS = Tile::THREAD_M * Tile::THREAD_N * (Tile::ACC_BYTES / 4);
  constexpr double LOADS = 4.0 * (Tile::THREAD_M + Tile::THREAD_N) / Tile::VECTOR;
  constexpr double BUSY = Tile::THREADS / WARP_SIZE * Tile::BLOCK_K * (MULTIPLY_ADDS + LOADS) / 4;
  return named_tile<Tile>(Algo::RegisterTile, tile, BUSY,
                          std::max(LOAD_LATENCY, BUSY) + BARRIER_LATENCY);
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
  Candidate candidate = named_tile<Tile>(Algo::MmaTile, tile, busy, alone);
  candidate.start = START + Tile::BLOCK_M * Tile::BLOCK_N * 8 / STORE;
  return candidate;
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

inline Candidates candidates_for(const Problem& problem, const DeviceInfo& device) {
  const auto all = [](const auto& table) {
    return Candidates{table, static_cast<int>(std::size(table))};
  };
  if (problem.dtype == DType::Float32 && device.capability >= 80) return all(ASYNC_TABLE);
  if (problem.dtype == DType::Float64 && device.hopper_kernels) return all(FP64_TABLE);
  switch (accumulator_bytes(problem.dtype)) {
    case 4: return all(TABLE<4>);
    case 8: return all(TABLE<8>);
    default: return all(TABLE<16>);
  }
}

}  // namespace tiled
