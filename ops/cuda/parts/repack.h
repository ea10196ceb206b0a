// Kernels before and after a product: an operand is copied to where the rung can read it, or reads
// it faster; and the sums of segments that were shared out are added.
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
