// A kernel's start in the shadow of the one before (parts/launch/launch.h, launch_early), for
// kernels that are built for older GPUs too: before compute capability 9.0 there is none, the
// kernel before has ended, and there is nothing to say or to wait for.
#pragma once

#include "cuda/parts/launch/fault.cuh"
#include "cuda/ptx/cluster.cuh"

namespace tiled {

// Lets the kernel after this one start its blocks.
__device__ __forceinline__ void let_the_next_start() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  ptx::griddepcontrol_launch_dependents();
#endif
}

// Until the kernels before have ended, and what they wrote is seen.
__device__ __forceinline__ void wait_for_kernels_before() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  if constexpr (FAULT != Fault::NoDependencyWait) ptx::griddepcontrol_wait();
#endif
}

}  // namespace tiled
