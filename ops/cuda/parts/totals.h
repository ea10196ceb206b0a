// What kernels take that go through segments of K one after the other, or each block through one.
#pragma once

#include "core/problem.h"

namespace tiled {

struct ProblemAndTotals {
  Problem problem;  // in split-K C is the workspace of sums (plan/sums.h)
  void* totals;     // else the workspace of totals (plan/candidate.h, add_totals)
  bool shares_segments;
};

}  // namespace tiled
