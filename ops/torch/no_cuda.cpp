// The CUDA key of a library built without CUDA: one clear error instead of the dispatcher's.
#include <torch/library.h>

#include "torch/hooks.h"
#include "torch/out_of_core.h"
#include "torch/products.h"

namespace tiled {
namespace {

#define BUILT_WITHOUT "tiled_mm was built without CUDA (tiled_mm.build_info() says why); "
#define BUILD_AGAIN \
  "build it again where nvcc and a CUDA build of torch of the same CUDA version are"
constexpr const char* MESSAGE = BUILT_WITHOUT "move the tensors to the CPU, or " BUILD_AGAIN;

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

std::vector<OutOfCoreTarget> cuda_targets(const OutOfCoreProduct&, const OutOfCoreOptions&) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "out_of_core computes on GPUs, but " BUILT_WITHOUT BUILD_AGAIN
                                     "; on the CPU there is tiled_mm.mm, and explain_out_of_core "
                                     "plans for a GPU that it is told, as device='h200'");
}

TORCH_LIBRARY_IMPL(tiled, CUDA, m) {
  for (const char* name :
       {"mm", "bmm", "mm.out", "bmm.out", "addmm", "addmm.out", "baddbmm", "baddbmm.out",
        "_addmm_with_before", "linear", "linear.out", "_linear_with_before", "grouped_mm",
        "grouped_mm.out", "_grouped_mm_with_before", "_add_grouped_weight_grad",
        "activation_backward", "fp16x3_recomputed"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

TORCH_LIBRARY_IMPL(tiled_debug, CUDA, m) {
  for (const char* name : {"mm_with_tile", "finished_with_tile", "mm_with_epilogue"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

}  // namespace tiled
