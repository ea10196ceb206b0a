// Plan to kernel.
#pragma once

#include <cuda_runtime_api.h>

#include "core/problem.h"
#include "cuda/plan/plan.h"

namespace tiled {

// Enqueues the planned kernels on the stream of the current device. `workspace` has the plan's
// workspace_bytes, at a multiple of 256 bytes. Returns the launch's error.
cudaError_t launch(const Problem& problem, const Plan& plan, void* workspace, cudaStream_t stream);

// What the runtime says of the planned kernel on the current device.
struct LaunchAttributes {
  int registers;         // of one thread
  int64_t shared_bytes;  // static, of one block
  int64_t local_bytes;   // stack and spills, of one thread
  int blocks_per_sm;
};

cudaError_t attributes(const Problem& problem, const Plan& plan, LaunchAttributes* result);

}  // namespace tiled
