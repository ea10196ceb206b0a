// Launches in the shadow of the kernel before: a block may start as soon as all of that one's have,
// and waits by griddepcontrol before it reads or writes (CUDA C++ Programming Guide, "Programmatic
// Dependent Launch and Synchronization").
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/parts/dynamic_shared.h"

namespace tiled {

// `cluster`: blocks of a cluster, 0 for a kernel that knows none. `shared`: dynamic, bytes.
inline cudaError_t launch_early(const void* kernel, dim3 grid, int threads, int shared, int cluster,
                                cudaStream_t stream, void* argument) {
  if (const cudaError_t error = allow_shared(kernel, shared); error != cudaSuccess) return error;
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = cluster > 0 ? 2 : 1;
  void* arguments[] = {argument};
  return cudaLaunchKernelExC(&config, kernel, arguments);
}

}  // namespace tiled
