// The planner of rung fp16x3. Pure, as plan.h.
#pragma once

#include "cuda/plan/plan.h"

namespace tiled {

// Below this K every element is computed in fp64: there is nothing to gain, and the bound of a few
// terms leaves no room for two parts.
constexpr int64_t FP16X3_LEAST_K = 64;

// What a block of the guard takes at a time: so many rows and columns of C.
constexpr int GUARD_SQUARE = 64;

// How much of |C| lost parts may be before an element is computed again: what all other errors
// leave of the bound g u |A||B|, with g = min(K, 8 sqrt(K)) and u = 2^-24 (docs/fp16x3.md). |C|
// stands for |A||B|, which is no smaller.
double fp16x3_tolerance(int64_t k);

bool fp16x3_supports(const Problem& problem, const DeviceInfo& device);

// Every way in which it can run the problem, the plan with one of them, and the best plan. Tile,
// cluster and order are in Plan::hopper.
std::vector<HopperPlan> fp16x3_plans(const Problem& problem, const DeviceInfo& device);
Plan fp16x3_plan_with(const Problem& problem, const DeviceInfo& device, const HopperPlan& choice);
Plan make_fp16x3_plan(const Problem& problem, const DeviceInfo& device);

}  // namespace tiled
