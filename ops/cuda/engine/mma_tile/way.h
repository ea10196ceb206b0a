// How mma_tile runs a problem.
#pragma once

#include "cuda/plan/access.h"

namespace tiled {

// In 16 bits and tf32.
struct MmaWay {
  int8_t tile;  // of MmaTiles
};

struct Fp64Way {
  int8_t tile;  // of Fp64Tiles
  Accesses access;
  bool split_k;    // among blocks (plan/sums.h)
  int32_t blocks;  // of stream-K (plan/stream_k.h); 0: whole tiles
};

}  // namespace tiled
