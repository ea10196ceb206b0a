// mm.out where a tensor is a lazy conj or neg view. ATen's own fallback resolves them for operators
// that return what they write; mm.out returns nothing.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "torch/schema.h"

namespace tiled {
namespace {

at::Tensor resolved(const at::Tensor& t) { return t.resolve_conj().resolve_neg(); }

void mm_out_resolved(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                     at::Tensor& out) {
  const bool lazy = out.is_conj() || out.is_neg();
  at::Tensor plain = lazy ? at::empty(out.sizes(), out.options()) : out;
  mm_out_operator().call(resolved(a), resolved(b), options, plain);
  if (!lazy) return;
  if (out.sizes() != plain.sizes()) out.resize_(plain.sizes());
  out.copy_(plain);
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, Conjugate, m) { m.impl("mm.out", kernel<&mm_out_resolved>); }
TORCH_LIBRARY_IMPL(tiled, Negative, m) { m.impl("mm.out", kernel<&mm_out_resolved>); }

}  // namespace tiled
