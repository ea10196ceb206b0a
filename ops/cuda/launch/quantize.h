// Tensors to fp8 by blocks (core/quantization.h) on the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "core/quantization.h"

namespace tiled {

// Enqueues the kernel on the stream of the current device; nothing where there are no elements.
// Returns the launch's error.
cudaError_t launch_quantize(const Quantization& pass, cudaStream_t stream);

}  // namespace tiled
