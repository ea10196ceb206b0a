// How mma_tile runs a problem in fp64. (In 16 bits and tf32 there is one way.)
#pragma once

#include "cuda/plan/access.h"
#include "cuda/plan/candidate.h"

namespace tiled {

struct Fp64Way {
  TileSize tile;
  Accesses access;
};

}  // namespace tiled
