// Tensors that are not dense, and CPU tensors where only a GPU has kernels: one error that says
// what is supported, instead of the dispatcher's list of keys.
#include <torch/library.h>

#include <sstream>

#include "torch/check.h"
#include "torch/schema.h"

namespace tiled {
namespace {

void refuse(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  std::ostringstream found;
  for (const c10::IValue& argument : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (!argument.isTensor() || !argument.toTensor().defined()) continue;
    const at::Tensor& tensor = argument.toTensor();
    found << (found.tellp() > 0 ? " and " : "") << (tensor.is_nested() ? "nested " : "")
          << tensor.layout() << " " << tensor.scalar_type();
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, "\"tiled_mm\" not implemented for ", found.str(),
                              " tensors; supported: dense (strided) CPU and CUDA tensors of ",
                              supported_dtypes());
}

void refuse_all(torch::Library& m) {
  for (const char* name : OF_EACH_DEVICE)
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

// Operators of a GPU's own kernels.
void refuse_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.schema().name(),
                              " is for kernels of a GPU: expected CUDA tensors, got cpu");
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, CPU, m) {
  m.impl("fp16x3_recomputed", torch::CppFunction::makeFromBoxedFunction<&refuse_on_cpu>());
}
TORCH_LIBRARY_IMPL(tiled_debug, CPU, m) {
  for (const char* name : {"mm_with_tile", "finished_with_tile"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse_on_cpu>());
}

TORCH_LIBRARY_IMPL(tiled, SparseCPU, m) { refuse_all(m); }
TORCH_LIBRARY_IMPL(tiled, SparseCUDA, m) { refuse_all(m); }
TORCH_LIBRARY_IMPL(tiled, SparseCsrCPU, m) { refuse_all(m); }
TORCH_LIBRARY_IMPL(tiled, SparseCsrCUDA, m) { refuse_all(m); }
TORCH_LIBRARY_IMPL(tiled, QuantizedCPU, m) { refuse_all(m); }
TORCH_LIBRARY_IMPL(tiled, QuantizedCUDA, m) { refuse_all(m); }
TORCH_LIBRARY_IMPL(tiled, MkldnnCPU, m) { refuse_all(m); }
TORCH_LIBRARY_IMPL(tiled, NestedTensorCPU, m) { refuse_all(m); }
TORCH_LIBRARY_IMPL(tiled, NestedTensorCUDA, m) { refuse_all(m); }

}  // namespace tiled
