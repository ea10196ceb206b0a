// Launches of a plan's steps. The compiler sees that a kernel is given the arguments that it takes.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/parts/dynamic_shared.h"
#include "cuda/plan/plan.h"

namespace tiled {

// A kernel of one argument, passed by value.
template <typename Arguments>
using Kernel = void (*)(Arguments);

namespace detail {

inline cudaError_t launch(const void* kernel, const Step& step, cudaStream_t stream, void* argument,
                          bool early) {
  const int shared = step.dynamic ? static_cast<int>(step.shared_bytes) : 0;
  if (const cudaError_t error = allow_shared(kernel, shared); error != cudaSuccess) return error;
  cudaLaunchAttribute attributes[2];
  int count = 0;
  if (early) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (step.cluster > 0) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned>(step.cluster), 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(step.grid_x), static_cast<unsigned>(step.grid_y));
  config.blockDim = dim3(step.threads_x, step.threads_y);
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  void* arguments[] = {argument};
  return cudaLaunchKernelExC(&config, kernel, arguments);
}

}  // namespace detail

// After all that is in the stream.
template <typename Arguments>
cudaError_t launch_kernel(Kernel<Arguments> kernel, const Step& step, cudaStream_t stream,
                          const Arguments& arguments) {
  return detail::launch(reinterpret_cast<const void*>(kernel), step, stream,
                        const_cast<Arguments*>(&arguments), /*early=*/false);
}

// In the shadow of the kernel before: a block may start as soon as all of that one's have, and
// waits by griddepcontrol before it reads or writes (CUDA C++ Programming Guide, "Programmatic
// Dependent Launch and Synchronization").
template <typename Arguments>
cudaError_t launch_early(Kernel<Arguments> kernel, const Step& step, cudaStream_t stream,
                         const Arguments& arguments) {
  return detail::launch(reinterpret_cast<const void*>(kernel), step, stream,
                        const_cast<Arguments*>(&arguments), /*early=*/true);
}

}  // namespace tiled
