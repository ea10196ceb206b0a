// Kernels before a product: an operand is copied to where the rung can read it, or reads it faster.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/plan/copies.h"

namespace tiled {

// `step`: the first of the plan's steps that add_copies() added.
cudaError_t launch_copies(const Copies& copies, const Problem& problem, const Step* step,
                          cudaStream_t stream);

}  // namespace tiled
