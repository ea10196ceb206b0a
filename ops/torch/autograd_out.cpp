// Operators that write into a tensor that they are given, where gradients are recorded: they have
// none, and what they overwrite is noted. The same for all of them, so the kernels are boxed.
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include "torch/schema.h"

namespace tiled {
namespace {

using torch::jit::Stack;

void without_gradient(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  bool needs_gradient = false, has_tangent = false;
  for (const c10::IValue& argument : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (!argument.isTensor()) continue;
    needs_gradient |= torch::autograd::compute_requires_grad(argument.toTensor());
    has_tangent |= torch::autograd::isFwGradDefined(argument.toTensor());
  }
  if (needs_gradient || has_tangent) {
    const std::string name = op.schema().name().substr(std::string("tiled::").size());
    if (needs_gradient) torch::autograd::throw_error_out_requires_grad(name.c_str());
    TORCH_CHECK_NOT_IMPLEMENTED(op.schema().overload_name() != "out",
                                "Trying to use forward AD with ", name,
                                "_out that does not support it because it is an out= function");
  }
  const at::AutoDispatchBelowAutograd below;
  op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
}

// The one argument that the schema marks, as Tensor(a!).
at::Tensor written(const c10::OperatorHandle& op, const Stack& stack) {
  const std::vector<c10::Argument>& arguments = op.schema().arguments();
  size_t i = 0;
  while (arguments[i].alias_info() == nullptr) ++i;
  return torch::jit::peek(stack, i, arguments.size()).toTensor();
}

// A kernel that writes through a pointer leaves the version as it was; autograd finds overwritten
// saved tensors by it.
void with_new_version(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const at::Tensor out = written(op, *stack);
  // The error that increment_version would raise, but before anything is written.
  TORCH_CHECK(
      !out.is_inference() || c10::InferenceMode::is_enabled(),
      "Inplace update to inference tensor outside InferenceMode is not allowed. You can make "
      "a clone to get a normal tensor before doing inplace update.");
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
  }
  torch::autograd::increment_version(out);
}

constexpr const char* ADDING[] = {"_add_linear_weight_grad", "_add_grouped_weight_grad",
                                  "_add_scaled_mm"};

template <auto* function>
void register_for_all(torch::Library& m) {
  for (const char* name : OUT_FORMS)
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<function>());
  for (const char* name : ADDING)
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<function>());
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, Autograd, m) { register_for_all<&without_gradient>(m); }
TORCH_LIBRARY_IMPL(tiled, ADInplaceOrView, m) { register_for_all<&with_new_version>(m); }

}  // namespace tiled
