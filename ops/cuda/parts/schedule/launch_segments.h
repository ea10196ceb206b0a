// The arguments of kernels that go through segments of K one after the other, or each block through
// one, and how their launches make them.
#pragma once

#include "cuda/parts/launch/launch_rung.h"
#include "cuda/plan/sums.h"
#include "cuda/plan/tree_pass.h"

namespace tiled {

struct ProblemAndTotals {
  Problem problem;  // C is the sums' place under split-K (plan/sums.h)
  void* totals;     // else where they wait, in the workspace (plan/candidate.h, add_product)
  bool split_k;
  LeafTable leaves;  // which split-K shares out in place of segments, if the problem has a tree
};

// The problem as the kernel computes it, with its totals. Under split-K, C holds segments' sums.
inline ProblemAndTotals with_totals(const Call& call, const Problem& computed, bool split_k) {
  void* const place = call.at<void>(Area::Totals);
  if (!split_k) return {computed, place, false, {}};
  return {problem_of_sums(computed, sums_layout(computed), place), nullptr, true,
          computed.leaf > 0 ? leaf_table(leaves_of(computed)) : LeafTable{}};
}

}  // namespace tiled
