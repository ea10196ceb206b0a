// What launch.cpp knows of a rung.
#pragma once

#include "cuda/parts/launch.h"

namespace tiled {

struct RungLaunch {
  // Enqueues a plan's kernels; `workspace` has its workspace_bytes. Plans that only write zeros
  // (Work::Sums alone) do not come here.
  cudaError_t (*launch)(const Problem& problem, const Plan& plan, void* workspace,
                        cudaStream_t stream);
  // The kernel of the plan's main step.
  const void* (*kernel)(const Problem& problem, const Plan& plan);
};

template <typename Arguments>
const void* address_of(Kernel<Arguments> kernel) {
  return reinterpret_cast<const void*>(kernel);
}

}  // namespace tiled
