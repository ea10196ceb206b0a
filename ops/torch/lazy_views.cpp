// out= forms where a tensor is a lazy conj or neg view. ATen's own fallback resolves them for
// operators that return what they write; these return nothing.
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

// write(plain) for out itself, or, where out is a lazy view, for a tensor that is copied to it.
template <typename Write>
void write_resolved(at::Tensor& out, const Write& write) {
  const bool lazy = out.is_conj() || out.is_neg();
  at::Tensor plain = lazy ? at::empty(out.sizes(), out.options()) : out;
  write(plain);
  if (!lazy) return;
  if (out.sizes() != plain.sizes()) out.resize_(plain.sizes());
  out.copy_(plain);
}

template <const MmOutOperator& (*OPERATOR)()>
void mm_out_resolved(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                     at::Tensor& out) {
  write_resolved(
      out, [&](at::Tensor& plain) { OPERATOR().call(resolved(a), resolved(b), options, plain); });
}

template <const AddmmOutOperator& (*OPERATOR)()>
void addmm_out_resolved(const at::Tensor& input, const at::Tensor& a, const at::Tensor& b,
                        const at::Scalar& beta, const at::Scalar& alpha,
                        std::optional<std::string_view> activation, const MmOptions& options,
                        at::Tensor& out) {
  write_resolved(out, [&](at::Tensor& plain) {
    OPERATOR().call(resolved(input), resolved(a), resolved(b), beta, alpha, activation, options,
                    plain);
  });
}

void linear_out_resolved(const at::Tensor& x, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias,
                         std::optional<std::string_view> activation, const MmOptions& options,
                         at::Tensor& out) {
  const std::optional<at::Tensor> plain_bias = bias ? std::optional(resolved(*bias)) : std::nullopt;
  write_resolved(out, [&](at::Tensor& plain) {
    linear_out_operator().call(resolved(x), resolved(weight), plain_bias, activation, options,
                               plain);
  });
}

void grouped_out_resolved(const at::Tensor& a, const at::Tensor& b,
                          const std::optional<at::Tensor>& offs,
                          const std::optional<at::Tensor>& bias,
                          std::optional<std::string_view> activation, const MmOptions& options,
                          at::Tensor& out) {
  const std::optional<at::Tensor> plain_bias = bias ? std::optional(resolved(*bias)) : std::nullopt;
  write_resolved(out, [&](at::Tensor& plain) {
    grouped_out_operator().call(resolved(a), resolved(b), offs, plain_bias, activation, options,
                                plain);
  });
}

void register_resolved(torch::Library& m) {
  m.impl("mm.out", kernel<&mm_out_resolved<&mm_out_operator>>);
  m.impl("bmm.out", kernel<&mm_out_resolved<&bmm_out_operator>>);
  m.impl("addmm.out", kernel<&addmm_out_resolved<&addmm_out_operator>>);
  m.impl("baddbmm.out", kernel<&addmm_out_resolved<&baddbmm_out_operator>>);
  m.impl("linear.out", kernel<&linear_out_resolved>);
  m.impl("grouped_mm.out", kernel<&grouped_out_resolved>);
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, Conjugate, m) { register_resolved(m); }
TORCH_LIBRARY_IMPL(tiled, Negative, m) { register_resolved(m); }

}  // namespace tiled
