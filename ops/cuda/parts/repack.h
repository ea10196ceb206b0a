// The two helpers of rung hopper: an operand that TMA cannot read is copied to where it can, and
// the sums of segments that were shared out are added. register_tile uses the first.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/plan/copies.h"
#include "cuda/plan/sums.h"

namespace tiled {

// `step`: the first of the plan's steps that add_copies() added.
cudaError_t launch_copies(const Copies& copies, const Problem& problem, const Step* step,
                          cudaStream_t stream);

// C = round(((0 + sums[0]) + sums[1]) + ...), `sums` as the layout has them.
cudaError_t launch_sum_segments(const Problem& problem, const SumsLayout& layout, const float* sums,
                                const Step& step, cudaStream_t stream);

}  // namespace tiled
