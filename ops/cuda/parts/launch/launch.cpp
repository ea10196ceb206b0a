#include "cuda/parts/launch/launch.h"

#include "cuda/parts/launch/dynamic_shared.h"
#include "cuda/parts/launch/kernel_notes.h"

namespace tiled {
namespace {

// Whether a kernel's code, as it runs on the current device, waits for the kernels before it: what
// was compiled for an architecture before 9.0 does not (early_start.cuh), though its PTX or its
// machine code may run on a later device.
cudaError_t find_whether_it_waits(const void* kernel, bool& waits) {
  static KernelNotes waiting;
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  if (const std::optional<bool> found = waiting.find(kernel, device)) {
    waits = *found;
    return cudaSuccess;
  }
  cudaFuncAttributes attributes;
  error = cudaFuncGetAttributes(&attributes, kernel);
  if (error != cudaSuccess) return error;
  waits = attributes.ptxVersion >= 90;
  waiting.note(kernel, device, waits);
  return cudaSuccess;
}

}  // namespace

namespace detail {

cudaError_t launch(const void* kernel, const Step& step, cudaStream_t stream, void* argument,
                   bool early) {
  const int shared = step.dynamic ? static_cast<int>(step.shared_bytes) : 0;
  if (const cudaError_t error = allow_shared(kernel, shared); error != cudaSuccess) return error;
  if (early)
    if (const cudaError_t error = find_whether_it_waits(kernel, early); error != cudaSuccess)
      return error;
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
}  // namespace tiled
