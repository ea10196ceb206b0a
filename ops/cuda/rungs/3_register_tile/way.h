// How register_tile runs a problem.
#pragma once

#include "cuda/parts/hand_over.h"
#include "cuda/plan/access.h"
#include "cuda/plan/candidate.h"

namespace tiled {

struct RegisterTileWay {
  TileSize tile;
  bool async;         // fp32 by cp.async (AsyncTiles), each operand as it can
  Accesses access;    // unless async both by vectors, or neither
  bool transpose_a;   // async only: the operand is copied first, to lie along m or n
  bool transpose_b;   // async only
  bool wraps_around;  // tiles are cut in time, among so many blocks (parts/wrap_around.h)
  int32_t blocks;
};

// Of ways that wrap around, behind the copies: each block's accumulators, and then the ticket and
// the flags.
struct WrappedLayout {
  int64_t accumulators_at, accumulator_bytes, words_at, words_bytes;
};
inline WrappedLayout wrapped_layout(const Plan& plan, int32_t blocks, int64_t behind) {
  const int64_t tiles = int64_t{blocks} * plan.block_m * plan.block_n * 4;
  return {behind, tiles, behind + tiles, hand_over_words_bytes(blocks)};
}

}  // namespace tiled
