// The out= forms where gradients are recorded: they have none, and what they overwrite is noted.
// The same for all of them, whose `out` is the last argument, so the kernels are boxed.
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
    TORCH_CHECK_NOT_IMPLEMENTED(false, "Trying to use forward AD with ", name,
                                "_out that does not support it because it is an out= function");
  }
  const at::AutoDispatchBelowAutograd below;
  op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
}

// A kernel that writes through a pointer leaves the version as it was; autograd finds overwritten
// saved tensors by it.
void with_new_version(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const at::Tensor out = stack->back().toTensor();
  // What increment_version would say, but before anything is written.
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

}  // namespace

TORCH_LIBRARY_IMPL(tiled, Autograd, m) {
  for (const char* name : OUT_FORMS)
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&without_gradient>());
}

TORCH_LIBRARY_IMPL(tiled, ADInplaceOrView, m) {
  for (const char* name : OUT_FORMS)
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&with_new_version>());
}

}  // namespace tiled
