// What inspection asks of the CUDA half. A build without CUDA answers with its own error
// (no_cuda.cpp), so no other file needs to know how the library was built.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <vector>

#include "cuda/device.h"
#include "precision.h"

namespace tiled {

// The running device of a CUDA tensor.
const DeviceInfo& cuda_device(c10::DeviceIndex index);

// Its compute capability, 90 for 9.0; 0 if there is no such device. For targets of calls that may
// only be traced.
int cuda_capability(c10::DeviceIndex index);

// Where a product of this tensor runs.
inline Target target_of(const at::Tensor& a) {
  return {a.device().type(), a.is_cuda() ? cuda_capability(a.device().index()) : 0};
}

// See schema.cpp: kernel_attributes.
std::vector<int64_t> cuda_kernel_attributes(const at::Tensor& a, const at::Tensor& b,
                                            std::optional<std::string_view> algo);

}  // namespace tiled
