// The CUDA key of a library built without CUDA: one clear error instead of the dispatcher's.
#include "torch/no_cuda.h"

#include <torch/library.h>

#include "torch/hooks.h"
#include "torch/products.h"
#include "torch/schema.h"

namespace tiled {
namespace {

constexpr const char* MESSAGE =
    TILED_MM_BUILT_WITHOUT_CUDA "move the tensors to the CPU, or " TILED_MM_BUILD_AGAIN;

void refuse(const c10::OperatorHandle&, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, MESSAGE);
}

}  // namespace

const DeviceInfo& cuda_device(c10::DeviceIndex) { TORCH_CHECK_NOT_IMPLEMENTED(false, MESSAGE); }

const DeviceInfo* cuda_device_if_any(c10::DeviceIndex) { return nullptr; }

std::vector<DeviceInfo> cuda_devices() { return {}; }

c10::DeviceIndex current_cuda_device() { TORCH_CHECK_NOT_IMPLEMENTED(false, MESSAGE); }

const Products* cuda_products() { return nullptr; }

std::vector<int64_t> cuda_kernel_attributes(const at::Tensor&, const at::Tensor&,
                                            const MmOptions&) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, MESSAGE);
}

TORCH_LIBRARY_IMPL(tiled, CUDA, m) {
  for (const char* name : OF_EACH_DEVICE)
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

TORCH_LIBRARY_IMPL(tiled_debug, CUDA, m) {
  for (const char* name :
       {"mm_with_tile", "finished_with_tile", "mm_with_epilogue", "scaled_with_tile"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

}  // namespace tiled
