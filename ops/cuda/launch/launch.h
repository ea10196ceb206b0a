// Plan to kernel, and the passes beside a plan's kernels. All enqueue on the stream of the current
// device and return the launch's error. A workspace is at a multiple of 256 bytes.
#pragma once

#include <cuda_runtime_api.h>

#include "core/gradient_pass.h"
#include "core/problem.h"
#include "core/quantization.h"
#include "core/sum_tree.h"
#include "cuda/plan/conversion.h"
#include "cuda/plan/plan.h"

namespace tiled {

// The planned kernels. `workspace` has the plan's workspace_bytes.
cudaError_t launch(const Problem& problem, const Plan& plan, void* workspace, cudaStream_t stream);

// The runtime says this of the planned kernel on the current device.
struct LaunchAttributes {
  int registers;         // of one thread
  int64_t shared_bytes;  // static, of one block
  int64_t local_bytes;   // stack and spills, of one thread
  int blocks_per_sm;
};

cudaError_t attributes(const Problem& problem, const Plan& plan, LaunchAttributes* result);

// A product by one of another dtype: the copies of the operands that have to be, the other product
// by its plan, and the pass that finishes its sums. `workspace` has the bytes of the plan, up to a
// multiple of 256, and the conversion's behind them.
cudaError_t launch_conversion(const Conversion& conversion, const Plan& plan, void* workspace,
                              cudaStream_t stream);

// The pass that ends a product whose K is summed by a tree.
cudaError_t launch_tree_sum(const TreePass& pass, cudaStream_t stream);

// A gradient's way back through an epilogue, and the bytes that it needs for sums on their way.
int64_t pass_back_workspace(const GradientPass& pass);
cudaError_t launch_pass_back(const GradientPass& pass, void* workspace, cudaStream_t stream);

// Tensors to fp8 by blocks; nothing where there are no elements.
cudaError_t launch_quantize(const Quantization& pass, cudaStream_t stream);

}  // namespace tiled
