// What kernels take that go through segments of K one after the other, or each block through one.
#pragma once

#include "core/problem.h"

namespace tiled {

struct ProblemAndTotals {
  Problem problem;  // C is the sums' place where segments are shared out (plan/sums.h)
  void* totals;     // else where they wait, in the workspace (plan/candidate.h, add_totals)
  bool shares_segments;
};

}  // namespace tiled
