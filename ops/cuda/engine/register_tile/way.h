// How register_tile runs a problem.
#pragma once

#include <cstdint>

#include "cuda/plan/access.h"

namespace tiled {

struct RegisterTileWay {
  int8_t tile;       // of the list for its accumulators, or of AsyncTiles (tiles.h)
  bool async;        // fp32 by cp.async (AsyncTiles), each operand as it can
  Accesses access;   // unless async both by vectors, or neither
  bool transpose_a;  // async only: the operand is copied first, to be contiguous along m or n
  bool transpose_b;  // async only
  int32_t blocks;    // of stream-K (plan/stream_k.h); 0: whole tiles
  bool split_k;      // among blocks (plan/sums.h); then there is no stream-K
};

}  // namespace tiled
