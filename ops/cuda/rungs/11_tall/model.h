// What the ways of rung tall take (model.cpp).
#pragma once

#include <algorithm>

#include "cuda/plan/device.h"
#include "cuda/rungs/11_tall/plan.h"

namespace tiled {

constexpr double TALL_CLOCK = 1755e6;  // whose cycles the model counts

struct TallEstimate {
  double memory, work, latency;  // cycles
  double cycles;                 // of the whole call

  const char* bound() const {
    return memory >= std::max(work, latency) ? "memory"
           : work >= latency                 ? "instructions"
                                             : "a strip's latency";
  }
};

TallEstimate tall_estimate(const Problem& problem, const DeviceInfo& device, const TallWay& way);

}  // namespace tiled
