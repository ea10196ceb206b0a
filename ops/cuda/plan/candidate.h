// The rungs of Arithmetic::Fma have this in common: tiles of C, one a block.
#pragma once

#include <cstdint>

#include "core/segments.h"
#include "cuda/plan/plan.h"
#include "cuda/plan/tile_name.h"

namespace tiled {

// One way to launch such a rung.
struct Candidate {
  int32_t block_m, block_n, block_k;  // powers of two
  int32_t threads_x, threads_y;
  int64_t shared_bytes;
  int32_t resident;            // blocks that one multiprocessor holds
  TileInfo info = {"", 1, 1};  // of a tile that has a name

  template <typename Tile>
  static constexpr Candidate of() {
    return {Tile::BLOCK_M,      Tile::BLOCK_N,       Tile::BLOCK_K,       Tile::THREADS, 1,
            Tile::SHARED_BYTES, Tile::BLOCKS_PER_SM, tile_info_of<Tile>()};
  }
};

constexpr int THREADS_IN_FLIGHT = 2048;  // of one multiprocessor
constexpr int BLOCKS_IN_FLIGHT = 32;

// Whether the problem asks for chains of multiply-adds that the device has.
bool is_of_chains(const Problem& problem, const DeviceInfo& device);

bool can_launch(const Candidate& candidate, const Problem& problem, const DeviceInfo& device);

Plan plan_of(Algo algo, const Candidate& candidate, const Problem& problem, const Way& way,
             bool swap_ab = false);

// The kernel of the sums, a block for each tile; where it walks through groups, no more blocks than
// run at once. `dynamic`: it is given its shared memory.
Step product_of(const Candidate& candidate, const Plan& plan, const Problem& problem,
                const DeviceInfo& device, bool dynamic = false);

// Tiles of an entry of the batch; with groups those of all of them, and of what is behind, at
// most.
int64_t most_tiles(const Problem& problem, int64_t block_m, int64_t block_n);

// Adds the product of such a kernel. By split-K it stores the sums of segments, which another
// kernel adds; its grid's y is a segment of an entry (parts/schedule/turn.cuh). Else its blocks
// keep their tiles' running totals between segments of K, in the workspace.
void add_product(Plan& plan, Step product, const Problem& problem, bool split_k);

}  // namespace tiled
