// Inspection asks this of the CUDA half. A build without CUDA answers with its own error
// (no_cuda.cpp), so no other file needs to know how the library was built.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "cuda/plan/device.h"
#include "torch/precision.h"

namespace tiled {

// The running device of a CUDA tensor; refuses one that this build has no kernels for.
const DeviceInfo& cuda_device(c10::DeviceIndex index);

// The same, or null if there is no such device. For targets of calls that may only be traced.
const DeviceInfo* cuda_device_if_any(c10::DeviceIndex index);

// All that torch sees, and which is the current one.
std::vector<DeviceInfo> cuda_devices();
c10::DeviceIndex current_cuda_device();

// Where a product of this tensor runs.
inline Target target_of(const at::Tensor& a) {
  return {a.device().type(), a.is_cuda() ? cuda_device_if_any(a.device().index()) : nullptr};
}

// See schema.cpp: kernel_attributes.
std::vector<int64_t> cuda_kernel_attributes(const at::Tensor& a, const at::Tensor& b,
                                            const MmOptions& options);

}  // namespace tiled
