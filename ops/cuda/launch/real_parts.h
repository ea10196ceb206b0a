// A complex product by a real one (plan/real_parts.h).
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/plan/real_parts.h"

namespace tiled {

// Enqueues the copies of the operands that have to be, the real product by its plan, and the pass
// that combines its sums, on the stream of the current device. `workspace` has the bytes of the
// plan, up to a multiple of 256, and the parts' behind them. Returns the launch's error.
cudaError_t launch_real_parts(const RealParts& parts, const Plan& plan, void* workspace,
                              cudaStream_t stream);

}  // namespace tiled
