// out= forms where a tensor is a lazy conj or neg view. ATen's own fallback resolves them for
// operators that return what they write; these return nothing. `out` is the last argument.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "torch/memory.h"
#include "torch/schema.h"

namespace tiled {
namespace {

at::Tensor resolved(const at::Tensor& t) {
  check_allocated(t);
  return t.resolve_conj().resolve_neg();
}

// Writes to out itself, or, where out is a lazy view, to a tensor that is copied to it.
void write_resolved(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::Tensor out = stack->back().toTensor();
  const bool lazy = out.is_conj() || out.is_neg();
  const at::Tensor plain = lazy ? at::empty(out.sizes(), out.options()) : out;
  stack->back() = plain;
  const auto count = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  for (auto argument = stack->end() - count; argument != stack->end() - 1; ++argument)
    if (argument->isTensor()) *argument = resolved(argument->toTensor());
  op.callBoxed(stack);
  if (!lazy) return;
  if (out.sizes() != plain.sizes()) out.resize_(plain.sizes());
  out.copy_(plain);
}

void register_resolved(torch::Library& m) {
  for (const char* name : OUT_FORMS)
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&write_resolved>());
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, Conjugate, m) { register_resolved(m); }
TORCH_LIBRARY_IMPL(tiled, Negative, m) { register_resolved(m); }

}  // namespace tiled
