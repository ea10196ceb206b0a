// Shapes without data: what torch.compile, export and meta tensors ask. Sizes may be symbolic.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "torch/activation_backward.h"
#include "torch/check_addmm.h"
#include "torch/check_grouped.h"
#include "torch/finished.h"
#include "torch/forms.h"
#include "torch/options.h"
#include "torch/precision.h"
#include "torch/sum_order.h"

namespace tiled {
namespace {

using Name = std::optional<std::string_view>;

// Everything that can be refused without knowing the device; returns the result's dtype.
at::ScalarType check_request(const at::Tensor& a, const MmOptions& options) {
  dtype_of(a.scalar_type());
  if (options.algo && !parse_algo(*options.algo))
    throw_unfit_algo(*options.algo, {std::begin(ALL_ALGOS), std::end(ALL_ALGOS)});
  // A CPU accepts every precision that some device may have for this dtype.
  resolve_precision(a.scalar_type(), {at::kCPU}, options);
  leaf_of(options);
  return check_out_dtype(a.scalar_type(), options);
}

// The result beside `a`, of a request that is checked (forms.h).
at::Tensor made(at::Tensor* pre_activation, at::Tensor* out, const at::Tensor& a,
                const c10::SymDimVector& sizes, at::ScalarType type) {
  if (out != nullptr) {
    const OutShape shape = check_out(a, *out, type, sizes);
    check_no_self_overlap(*out);
    if (shape == OutShape::ToBeResized) out->resize__symint(sizes);
    return *out;
  }
  const auto empty = [&] { return at::empty_symint(sizes, a.options().dtype(type)); };
  if (pre_activation != nullptr) *pre_activation = empty();
  return empty();
}

// The check of operators that have an epilogue.
at::ScalarType check_finished_request(const at::Tensor& a, const MmOptions& options) {
  check_request(a, options);
  return check_finished_out_dtype(a.scalar_type(), options);
}

c10::SymDimVector product_sizes(const at::Tensor& a, const at::Tensor& b) {
  c10::SymDimVector sizes(a.sym_sizes().begin(), a.sym_sizes().end());
  sizes.back() = b.sym_size(-1);
  return sizes;
}

// mm and bmm, by their checks.
template <auto CHECK_ALL>
at::Tensor product_meta(at::Tensor* pre_activation, at::Tensor* out, const at::Tensor& a,
                        const at::Tensor& b, const MmOptions& options) {
  CHECK_ALL(a, b);
  return made(pre_activation, out, a, product_sizes(a, b), check_request(a, options));
}

// addmm and baddbmm, by their checks.
template <auto CHECK_ALL>
at::Tensor addmm_meta(at::Tensor* pre_activation, at::Tensor* out, const at::Tensor& input,
                      const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                      const at::Scalar& alpha, Name activation, const MmOptions& options) {
  CHECK_ALL(input, a, b);
  const c10::SymDimVector sizes = product_sizes(a, b);
  input.expand_symint(sizes);  // or its refusal
  const at::ScalarType type = check_finished_request(a, options);
  check_activation(activation, a.scalar_type());
  factor_of(alpha, a.scalar_type(), "alpha");
  factor_of(beta, a.scalar_type(), "beta");
  return made(pre_activation, out, a, sizes, type);
}

at::Tensor linear_meta(at::Tensor* pre_activation, at::Tensor* out, const at::Tensor& x,
                       const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       Name activation, const MmOptions& options) {
  const LinearShape shape = check_linear(x, weight, bias);
  const auto sizes = linear_sizes(x, weight);
  if (bias) expanded_bias(*bias, x, shape, sizes);  // or its refusal
  check_activation(activation, x.scalar_type());
  return made(pre_activation, out, x, sizes, check_finished_request(x, options));
}

std::tuple<at::Tensor, at::Tensor> activation_backward_meta(
    const at::Tensor& gradient, const std::optional<at::Tensor>& pre_activation, Name activation,
    std::optional<at::ScalarType> bias_dtype) {
  const bool passes = check_activation_backward(gradient, pre_activation, activation, bias_dtype) !=
                      Activation::None;
  const auto options = gradient.options();
  return {passes ? at::empty_symint(gradient.sym_sizes(), options) : at::empty({0}, options),
          bias_dtype ? at::empty_symint({gradient.sym_size(-1)}, options.dtype(*bias_dtype))
                     : at::empty({0}, options)};
}

at::Tensor grouped_meta(at::Tensor* pre_activation, at::Tensor* out, const at::Tensor& a,
                        const at::Tensor& b, const std::optional<at::Tensor>& offs,
                        const std::optional<at::Tensor>& bias, Name activation,
                        const MmOptions& options) {
  const GroupedShape shape = check_grouped(a, b, offs, bias);
  check_request(a, options);
  const Activation checked = check_activation(activation, a.scalar_type());
  const bool is_finished = bias || pre_activation != nullptr || checked != Activation::None;
  const at::ScalarType type = check_grouped_out_dtype(a.scalar_type(), is_finished, options);
  return made(pre_activation, out, a, shape.sizes(), type);
}

void add_grouped_weight_grad_meta(at::Tensor& sum, const at::Tensor& left, const at::Tensor& right,
                                  const at::Tensor& offs, const MmOptions& asked) {
  check_grouped_weight_grad(sum, left, right, offs);
  MmOptions options = asked;
  options.out_dtype = sum.scalar_type();
  check_finished_request(left, options);
  check_no_self_overlap(sum);
}

at::Tensor fp16x3_recomputed_meta(const at::Tensor& a, const at::Tensor& b) {
  a.dim() == 3 ? check_bmm(a, b) : check_mm(a, b);
  return at::empty({}, a.options().dtype(at::kLong));
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, Meta, m) {
  using Mm = Forms<&product_meta<&check_mm>>;
  using Bmm = Forms<&product_meta<&check_bmm>>;
  m.impl("mm", kernel<&Mm::product>);
  m.impl("bmm", kernel<&Bmm::product>);
  m.impl("mm.out", kernel<&Mm::out>);
  m.impl("bmm.out", kernel<&Bmm::out>);
  using Addmm = Forms<&addmm_meta<&check_addmm>>;
  using Baddbmm = Forms<&addmm_meta<&check_baddbmm>>;
  m.impl("addmm", kernel<&Addmm::product>);
  m.impl("addmm.out", kernel<&Addmm::out>);
  m.impl("baddbmm", kernel<&Baddbmm::product>);
  m.impl("baddbmm.out", kernel<&Baddbmm::out>);
  m.impl("_addmm_with_pre_activation",
         kernel<&Forms<&addmm_meta<&check_addmm_or_baddbmm>>::with_pre_activation>);
  using Linear = Forms<&linear_meta>;
  m.impl("linear", kernel<&Linear::product>);
  m.impl("linear.out", kernel<&Linear::out>);
  m.impl("_linear_with_pre_activation", kernel<&Linear::with_pre_activation>);
  using Grouped = Forms<&grouped_meta>;
  m.impl("grouped_mm", kernel<&Grouped::product>);
  m.impl("grouped_mm.out", kernel<&Grouped::out>);
  m.impl("_grouped_mm_with_pre_activation", kernel<&Grouped::with_pre_activation>);
  m.impl("_add_grouped_weight_grad", kernel<&add_grouped_weight_grad_meta>);
  m.impl("activation_backward", &activation_backward_meta);
  m.impl("fp16x3_recomputed", &fp16x3_recomputed_meta);
}

}  // namespace tiled
