// The launch of stream-K kernels (parts/wrap_around.h).
#pragma once

#include "core/problem.h"
#include "cuda/parts/cut_grid.h"
#include "cuda/parts/launch_rung.h"

namespace tiled {

// A block is a cluster of the grid, and a group of the hand-over.
struct WrappedArguments {
  Problem problem;
  CutGrid cuts;
};

// The product of a plan that cuts tiles for the step's blocks (parts/wrapped_plan.h), as the kernel
// reads it.
cudaError_t launch_wrapped(Kernel<WrappedArguments> kernel, const Problem& read, const Call& call,
                           const Step& step);

}  // namespace tiled
