// What rungs tma_wgmma and warp_specialized are launched with. Host and device.
#pragma once

#include <cuda.h>

#include "core/problem.h"

namespace tiled {

struct WgmmaArguments {
  CUtensorMap a_map;  // A [batch][m][k]
  CUtensorMap b_map;  // B's transpose [batch][n][k]
  Problem problem;
};

}  // namespace tiled
