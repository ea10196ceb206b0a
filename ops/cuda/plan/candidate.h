// What the rungs of Arithmetic::Fma have in common: tiles of C, one a block, and a small model of
// their time.
#pragma once

#include <cstdint>

#include "core/segments.h"
#include "cuda/plan/plan.h"

namespace tiled {

// One way to launch such a rung, with the model's view of it. The model knows one step of one block
// (BLOCK_K values of k): how long it keeps a multiprocessor's units busy, and how long it takes
// from its first load to its last barrier when the block is alone there. The figures are an H200's
// cycles, fitted to the times of bench/results/h200_ieee.json and h200_fp64.json; cycles_of scales
// them for other chips. They only have to put the candidates in the right order.
struct Candidate {
  int32_t block_m, block_n, block_k;  // powers of two
  int32_t threads_x, threads_y;
  int64_t shared_bytes;
  int32_t resident;           // blocks that one multiprocessor holds
  double busy;                // cycles of a step
  double latency;             // cycles of a step
  double start = 0;           // cycles before the first step
  bool tensor_cores = false;  // its multiply-adds are theirs
  // A multiprocessor's blocks end together, so that the last ones begin as many on one of them.
  bool in_company = false;
};

constexpr double LOAD_LATENCY = 600;     // cycles from global memory
constexpr double BARRIER_LATENCY = 100;  // cycles, with the stores to shared memory before it
constexpr int THREADS_IN_FLIGHT = 2048;  // of one multiprocessor
constexpr int BLOCKS_IN_FLIGHT = 32;

template <typename Tile>
constexpr Candidate candidate_of(double busy, double latency) {
  return {Tile::BLOCK_M,      Tile::BLOCK_N,       Tile::BLOCK_K, Tile::THREADS, 1,
          Tile::SHARED_BYTES, Tile::BLOCKS_PER_SM, busy,          latency};
}

// Which of a rung's three tiles for an accumulator.
enum class TileSize : int8_t { Large, Medium, Small };

// Whether the problem asks for chains of multiply-adds that the device has.
bool is_of_chains(const Problem& problem, const DeviceInfo& device);

bool can_launch(const Candidate& candidate, const Problem& problem, const DeviceInfo& device);

// Cycles until the busiest multiprocessor has done its share of the blocks, each with all of K or,
// where segments are shared out, one of them; and until their sums are added then.
double cycles_of(const Candidate& candidate, const Problem& problem, const DeviceInfo& device,
                 bool shares_segments = false);

// The plan of one kernel, a block for each tile, `dynamic` where it is given its shared memory.
Plan plan_of(Algo algo, const Candidate& candidate, const Problem& problem, const Way& way,
             bool dynamic = false);

// Of the product's blocks, in the workspace after all else: where they keep their tiles' running
// totals between segments of K, in kernels whose registers do not hold them.
void add_totals(Plan& plan, const Problem& problem);

// The same for a product whose segments are shared out: their sums, and the kernel that adds them.
// The grid's y is a segment of an entry (parts/turn.cuh).
void add_sums(Plan& plan, const Problem& problem);

// Whether there are blocks too few to fill the device evenly, so that sharing segments may gain.
bool gains_by_sharing(const Candidate& candidate, const Problem& problem, const DeviceInfo& device);

}  // namespace tiled
