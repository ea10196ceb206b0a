// What the launches of kernels share that take ProblemAndTotals.
#pragma once

#include "cuda/parts/launch_rung.h"
#include "cuda/parts/totals.h"
#include "cuda/plan/sums.h"

namespace tiled {

// The arguments for the problem as the kernel computes it. With split-K, C is the segments' sums.
inline ProblemAndTotals with_totals(const Call& call, const Problem& computed,
                                    bool shares_segments) {
  void* const place = call.at<void>(Area::Totals);
  if (!shares_segments) return {computed, place, false};
  return {problem_of_sums(computed, sums_layout(computed), place), nullptr, true};
}

}  // namespace tiled
