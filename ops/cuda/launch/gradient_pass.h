// A gradient's way back through an epilogue (core/gradient_pass.h) on the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "core/gradient_pass.h"

namespace tiled {

// Bytes that launch_pass_back() needs for sums on their way.
int64_t pass_back_workspace(const GradientPass& pass);

// Enqueues the kernels on the stream of the current device. `workspace` is at a multiple of 256
// bytes. Returns the launch's error.
cudaError_t launch_pass_back(const GradientPass& pass, void* workspace, cudaStream_t stream);

}  // namespace tiled
