// The kernel after a product whose segments were shared out.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/plan/sums.h"

namespace tiled {

// C = round(((0 + sums[0]) + sums[1]) + ...), `sums` as the layout has them.
cudaError_t launch_sum_segments(const Problem& problem, const SumsLayout& layout, const void* sums,
                                const Step& step, cudaStream_t stream);

}  // namespace tiled
