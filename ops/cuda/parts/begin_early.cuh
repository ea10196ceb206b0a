// The begin of a kernel that is launched in the shadow of the one before where the device knows
// that (launch_early), and is compiled for older ones too.
#pragma once

#include "cuda/ptx/cluster.cuh"

namespace tiled {

// Before the first read or write.
__device__ __forceinline__ void begin_early() {
#if __CUDA_ARCH__ >= 900
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
#endif
}

}  // namespace tiled
