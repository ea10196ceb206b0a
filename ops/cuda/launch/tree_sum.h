// The pass that ends a product whose K is summed by a tree (core/sum_tree.h) on the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "core/sum_tree.h"

namespace tiled {

// Enqueues the kernel on the stream of the current device. Returns the launch's error.
cudaError_t launch_tree_sum(const TreePass& pass, cudaStream_t stream);

}  // namespace tiled
