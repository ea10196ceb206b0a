// How much dynamic shared memory a kernel may be launched with.
#pragma once

#include <cuda_runtime_api.h>

namespace tiled {

// Once for each kernel and device: as much as the device has for a block, less what the kernel has
// declared itself. For whoever launches with more than every kernel may have.
cudaError_t allow_most_shared(const void* kernel);

// Before a launch of `kernel` on the current device with so many bytes.
inline cudaError_t allow_shared(const void* kernel, int bytes) {
  constexpr int GRANTED = 48 * 1024;  // bytes, of every kernel
  return bytes <= GRANTED ? cudaSuccess : allow_most_shared(kernel);
}

}  // namespace tiled
