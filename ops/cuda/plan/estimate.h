// One formula, in seconds, for every rung and arithmetic: what a plan takes on a device, by the
// rules. It only has to put a problem's ways in the right order.
#pragma once

#include <vector>

#include "cuda/plan/plan.h"
#include "cuda/plan/rules.h"
#include "cuda/plan/rung.h"

namespace tiled {

// The formula asks this in addition to a plan's Demand.
struct DemandTerms {
  double steps;     // of BLOCK_K, of one unit
  double elements;  // of C, that one unit sums
  double bytes;     // of A, B and C, each once
  double copies;    // bytes that copies and splits write
};
DemandTerms terms_of(const Problem& problem, const Plan& plan);

double estimated_seconds(const Problem& problem, const DeviceInfo& device, const Rules& rules,
                         const Plan& plan);

// A way, and the seconds that it is estimated at, or was measured to take.
struct Choice {
  Plan plan;
  double seconds;
};

// The best rung and way by the rules: their measured way of the problem's class, if they have one
// that can run it, else the least estimate. A rung that is asked for is left the choice among its
// own ways. Pure.
Choice choose(const Problem& problem, const DeviceInfo& device, const Rules& rules,
              const Algo* asked = nullptr);

// Every way that choose() looks at, the least estimate first.
std::vector<Choice> ranked_ways(const Problem& problem, const DeviceInfo& device,
                                const Rules& rules, const Algo* asked = nullptr);

// The rules and estimates ask this of an epilogue: whether there is one, which activation it has,
// and whether it keeps the pre-activations.
int64_t finishing_of(const Epilogue& epilogue);

// The name of a plan's way.
NamedWay name_of_way(const Problem& problem, const Plan& plan);

}  // namespace tiled
