// What the planner's models say of a product, for who plans with products.
#pragma once

#include "cuda/plan/plan.h"

namespace tiled {

// make_plan(problem, device), and what it would take: cycles of the device's highest clock, 0 where
// no model says. Under a limit of power the clock falls, and the product takes longer.
struct EstimatedPlan {
  Plan plan;
  double cycles;
};
EstimatedPlan estimated_plan(const Problem& problem, const DeviceInfo& device);

}  // namespace tiled
