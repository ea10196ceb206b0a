// What kernels take whose registers do not hold the running totals of segments of K.
#pragma once

#include "core/problem.h"

namespace tiled {

struct ProblemAndTotals {
  Problem problem;
  void* totals;  // in the workspace (plan/candidate.h, add_totals), where they wait
};

}  // namespace tiled
