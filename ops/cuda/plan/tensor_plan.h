// The planner of the tensor-core rungs (Arithmetic::Tensor and Tf32): which rung, and for hopper
// which tile, cluster and order. Pure, as plan.h.
#pragma once

#include "cuda/plan/plan.h"

namespace tiled {

bool tensor_supports(Algo algo, const Problem& problem, const DeviceInfo& device);

// The best plan, and the best with this rung, which must support the problem.
Plan make_tensor_plan(const Problem& problem, const DeviceInfo& device);
Plan make_tensor_plan(const Problem& problem, const DeviceInfo& device, Algo algo);

// Every way in which hopper can run the problem, for those who measure or print them all.
std::vector<HopperPlan> hopper_plans(const Problem& problem, const DeviceInfo& device);

// The grid of units that a plan's clusters walk through.
struct Units {
  int64_t clusters_p, clusters_q, count;
};
Units units_of(const Problem& problem, const HopperPlan& plan);

// The model's estimate of one of them (hopper_model.cpp).
struct HopperEstimate {
  double tensor, shared, feed;  // cycles of a step: tensor cores, shared memory, bytes from L2
  double waves;                 // rounds of tiles on the busiest multiprocessor
  double cycles;                // of the whole call
};
HopperEstimate estimate(const Problem& problem, const DeviceInfo& device, const HopperPlan& plan);

// The plan with this way to run hopper.
Plan plan_with(const Problem& problem, const HopperPlan& choice);

}  // namespace tiled
