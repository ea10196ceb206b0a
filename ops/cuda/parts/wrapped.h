// The launch of kernels whose tiles are cut in time (parts/wrap_around.h).
#pragma once

#include "core/problem.h"
#include "cuda/parts/cut_grid.h"
#include "cuda/parts/launch.h"

namespace tiled {

// A block is a cluster of the grid, and a group of the hand-over.
struct WrappedArguments {
  Problem problem;
  CutGrid cuts;
};

// The product of `plan`, which cuts tiles for so many blocks (parts/wrapped_plan.h), as the kernel
// reads it. The words are cleared before it, in the stream, at every call and replay. `behind`:
// bytes of the workspace that are others'.
cudaError_t launch_wrapped(Kernel<WrappedArguments> kernel, const Problem& read, const Plan& plan,
                           int32_t blocks, void* workspace, int64_t behind, cudaStream_t stream);

// Clears the words of a hand-over among so many groups, in the stream (plan/wrapped_plan.h).
cudaError_t launch_clear_words(const HandOver& hand_over, int64_t groups, const Step& step,
                               cudaStream_t stream);

}  // namespace tiled
