// What the ways of rung async_mma take (model.cpp).
#pragma once

#include "cuda/plan/device.h"
#include "cuda/rungs/10_async_mma/plan.h"

namespace tiled {

struct AsyncMmaEstimate {
  double product, memory, cycles;  // of the call
  const char* bound;               // what takes longest of it
};

AsyncMmaEstimate async_mma_estimate(const Problem& problem, const DeviceInfo& device,
                                    const AsyncMmaWay& way);

}  // namespace tiled
