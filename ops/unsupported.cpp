// Tensors that are not dense: one error that says what is supported, instead of the dispatcher's
// list of keys.
#include <torch/library.h>

namespace tiled {
namespace {

void refuse(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  for (const c10::IValue& argument : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (!argument.isTensor()) continue;
    const at::Tensor& tensor = argument.toTensor();
    TORCH_CHECK_NOT_IMPLEMENTED(
        tensor.layout() == at::kStrided && !tensor.is_quantized(),
        "\"tiled_mm\" not implemented for ", tensor.layout(), " tensors of dtype ",
        tensor.scalar_type(),
        "; supported: dense (strided) CPU and CUDA tensors of Float, Double, Half, BFloat16, "
        "ComplexFloat, ComplexDouble, Char, Short, Int, Long, Byte");
  }
}

void refuse_all(torch::Library& m) {
  for (const char* name : {"mm", "bmm", "mm.out"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, SparseCPU, m) { refuse_all(m); }
TORCH_LIBRARY_IMPL(tiled, SparseCUDA, m) { refuse_all(m); }
TORCH_LIBRARY_IMPL(tiled, SparseCsrCPU, m) { refuse_all(m); }
TORCH_LIBRARY_IMPL(tiled, SparseCsrCUDA, m) { refuse_all(m); }
TORCH_LIBRARY_IMPL(tiled, QuantizedCPU, m) { refuse_all(m); }
TORCH_LIBRARY_IMPL(tiled, QuantizedCUDA, m) { refuse_all(m); }
TORCH_LIBRARY_IMPL(tiled, MkldnnCPU, m) { refuse_all(m); }

}  // namespace tiled
