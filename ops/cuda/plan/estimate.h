// What the planner's models say of a product, for who plans with products.
#pragma once

#include "cuda/plan/plan.h"

namespace tiled {

// Cycles of the device's highest clock that make_plan(problem, device) would take; 0 where no model
// says. Under a limit of power the clock falls, and the product takes longer.
double estimated_cycles(const Problem& problem, const DeviceInfo& device);

}  // namespace tiled
