// The launch of kernels that take ProblemAndTotals.
#pragma once

#include "cuda/parts/launch.h"
#include "cuda/parts/sum_segments.h"
#include "cuda/parts/totals.h"

namespace tiled {

// The plan's product, by launch(ProblemAndTotals): of the problem as its kernel reads it (and maybe
// turns it), with the workspace from `place` on. Then the sums, where segments are shared out.
template <typename Launch>
cudaError_t launch_segments(const Problem& problem, const Plan& plan, bool shares_segments,
                            void* place, cudaStream_t stream, Launch launch) {
  if (!shares_segments) return launch(ProblemAndTotals{problem, place, false});
  const SumsLayout layout = sums_layout(problem, segment_count(problem.k));
  const cudaError_t error =
      launch(ProblemAndTotals{problem_of_sums(problem, layout, place), nullptr, true});
  if (error != cudaSuccess) return error;
  return launch_sum_segments(problem, layout, place, plan.end()[-1], stream);
}

}  // namespace tiled
