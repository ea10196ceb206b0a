// What the ways of rung few_rows take (model.cpp).
#pragma once

#include <algorithm>

#include "cuda/plan/device.h"
#include "cuda/rungs/8_few_rows/plan.h"

namespace tiled {

constexpr double FEW_ROWS_CLOCK = 1755e6;  // whose cycles the model counts
constexpr double FEW_ROWS_START = 3800;    // of them: launch, the first bytes' way, the end
constexpr int64_t FEW_ROWS_OF_FP64 = 256;  // so many are few beside mma_tile
constexpr int FEW_ROWS_USUAL = 64;         // columns of a tile; wider ones are for one round

struct FewRowsEstimate {
  double memory, chain, start;  // cycles
  double cycles;                // of the whole call

  const char* bound() const {
    return start > std::max(memory, chain) ? "start and end" : chain > memory ? "chain" : "memory";
  }
};

FewRowsEstimate few_rows_estimate(const Problem& problem, const DeviceInfo& device,
                                  const FewRowsPlan& plan);

}  // namespace tiled
