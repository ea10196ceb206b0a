// Shapes without data: what torch.compile, export and meta tensors ask. Sizes may be symbolic.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "torch/activation_backward.h"
#include "torch/check_addmm.h"
#include "torch/check_grouped.h"
#include "torch/finished.h"
#include "torch/options.h"
#include "torch/precision.h"

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
  return check_out_dtype(a.scalar_type(), options);
}

// The same of operators that go on from the sum.
at::ScalarType check_finished_request(const at::Tensor& a, const MmOptions& options) {
  check_request(a, options);
  return check_finished_out_dtype(a.scalar_type(), options);
}

at::Tensor mm_meta(const at::Tensor& a, const at::Tensor& b, const MmOptions& options) {
  check_mm(a, b);
  const at::ScalarType type = check_request(a, options);
  return at::empty_symint({a.sym_size(0), b.sym_size(1)}, a.options().dtype(type));
}

at::Tensor bmm_meta(const at::Tensor& a, const at::Tensor& b, const MmOptions& options) {
  check_bmm(a, b);
  const at::ScalarType type = check_request(a, options);
  return at::empty_symint({a.sym_size(0), a.sym_size(1), b.sym_size(2)}, a.options().dtype(type));
}

// mm and bmm, by their checks.
template <auto CHECK_ALL>
void product_out_meta(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                      at::Tensor& out) {
  CHECK_ALL(a, b);
  c10::SymDimVector sizes(a.sym_sizes().begin(), a.sym_sizes().end());
  sizes.back() = b.sym_size(-1);
  const at::ScalarType type = check_request(a, options);
  const OutShape shape = check_out(a, out, type, sizes);
  check_no_self_overlap(out);
  if (shape == OutShape::ToBeResized) out.resize__symint(sizes);
}

// addmm and baddbmm, by their checks. The size of C.
template <auto CHECK_ALL>
c10::SymDimVector addmm_sizes(const at::Tensor& input, const at::Tensor& a, const at::Tensor& b) {
  CHECK_ALL(input, a, b);
  c10::SymDimVector sizes(a.sym_sizes().begin(), a.sym_sizes().end());
  sizes.back() = b.sym_size(-1);
  input.expand_symint(sizes);  // or its refusal
  return sizes;
}

at::ScalarType check_addmm_request(const at::Tensor& a, const at::Scalar& beta,
                                   const at::Scalar& alpha, Name activation,
                                   const MmOptions& options) {
  const at::ScalarType type = check_finished_request(a, options);
  check_activation(activation, a.scalar_type());
  factor_of(alpha, a.scalar_type(), "alpha");
  factor_of(beta, a.scalar_type(), "beta");
  return type;
}

template <auto CHECK_ALL>
at::Tensor addmm_meta(const at::Tensor& input, const at::Tensor& a, const at::Tensor& b,
                      const at::Scalar& beta, const at::Scalar& alpha, Name activation,
                      const MmOptions& options) {
  const auto sizes = addmm_sizes<CHECK_ALL>(input, a, b);
  const at::ScalarType type = check_addmm_request(a, beta, alpha, activation, options);
  return at::empty_symint(sizes, a.options().dtype(type));
}

std::tuple<at::Tensor, at::Tensor> addmm_with_before_meta(const at::Tensor& input,
                                                          const at::Tensor& a, const at::Tensor& b,
                                                          const at::Scalar& beta,
                                                          const at::Scalar& alpha, Name activation,
                                                          const MmOptions& options) {
  at::Tensor c = addmm_meta<&check_addmm_or_baddbmm>(input, a, b, beta, alpha, activation, options);
  return {c, at::empty_like(c)};
}

template <auto CHECK_ALL>
void addmm_out_meta(const at::Tensor& input, const at::Tensor& a, const at::Tensor& b,
                    const at::Scalar& beta, const at::Scalar& alpha, Name activation,
                    const MmOptions& options, at::Tensor& out) {
  const auto sizes = addmm_sizes<CHECK_ALL>(input, a, b);
  const at::ScalarType type = check_addmm_request(a, beta, alpha, activation, options);
  const OutShape shape = check_out(a, out, type, sizes);
  check_no_self_overlap(out);
  if (shape == OutShape::ToBeResized) out.resize__symint(sizes);
}

// The size of C and its dtype.
std::tuple<c10::SymDimVector, at::ScalarType> check_linear_request(
    const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    Name activation, const MmOptions& options) {
  const LinearShape shape = check_linear(x, weight, bias);
  const auto sizes = linear_sizes(x, weight);
  if (bias) expanded_bias(*bias, x, shape, sizes);  // or its refusal
  check_activation(activation, x.scalar_type());
  return {sizes, check_finished_request(x, options)};
}

at::Tensor linear_meta(const at::Tensor& x, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, Name activation,
                       const MmOptions& options) {
  const auto [sizes, type] = check_linear_request(x, weight, bias, activation, options);
  return at::empty_symint(sizes, x.options().dtype(type));
}

void linear_out_meta(const at::Tensor& x, const at::Tensor& weight,
                     const std::optional<at::Tensor>& bias, Name activation,
                     const MmOptions& options, at::Tensor& out) {
  const auto [sizes, type] = check_linear_request(x, weight, bias, activation, options);
  const OutShape shape = check_out(x, out, type, sizes);
  check_no_self_overlap(out);
  if (shape == OutShape::ToBeResized) out.resize__symint(sizes);
}

std::tuple<at::Tensor, at::Tensor> linear_with_before_meta(const at::Tensor& x,
                                                           const at::Tensor& weight,
                                                           const std::optional<at::Tensor>& bias,
                                                           Name activation,
                                                           const MmOptions& options) {
  at::Tensor c = linear_meta(x, weight, bias, activation, options);
  return {c, at::empty_like(c)};
}

std::tuple<at::Tensor, at::Tensor> activation_backward_meta(
    const at::Tensor& gradient, const std::optional<at::Tensor>& before, Name activation,
    std::optional<at::ScalarType> bias_dtype) {
  const bool passes =
      check_activation_backward(gradient, before, activation, bias_dtype) != Activation::None;
  const auto options = gradient.options();
  return {passes ? at::empty_symint(gradient.sym_sizes(), options) : at::empty({0}, options),
          bias_dtype ? at::empty_symint({gradient.sym_size(-1)}, options.dtype(*bias_dtype))
                     : at::empty({0}, options)};
}

// The size of C and its dtype.
std::tuple<c10::SymDimVector, at::ScalarType> check_grouped_request(
    const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& offs,
    const std::optional<at::Tensor>& bias, Name activation, bool before, const MmOptions& options) {
  const GroupedShape shape = check_grouped(a, b, offs, bias);
  check_request(a, options);
  const Activation checked = check_activation(activation, a.scalar_type());
  const bool is_finished = bias || before || checked != Activation::None;
  return {shape.sizes(), check_grouped_out_dtype(a.scalar_type(), is_finished, options)};
}

at::Tensor grouped_meta(const at::Tensor& a, const at::Tensor& b,
                        const std::optional<at::Tensor>& offs,
                        const std::optional<at::Tensor>& bias, Name activation,
                        const MmOptions& options) {
  const auto [sizes, type] = check_grouped_request(a, b, offs, bias, activation, false, options);
  return at::empty_symint(sizes, a.options().dtype(type));
}

std::tuple<at::Tensor, at::Tensor> grouped_with_before_meta(
    const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& offs,
    const std::optional<at::Tensor>& bias, Name activation, const MmOptions& options) {
  const auto [sizes, type] = check_grouped_request(a, b, offs, bias, activation, true, options);
  return {at::empty_symint(sizes, a.options().dtype(type)),
          at::empty_symint(sizes, a.options().dtype(type))};
}

void grouped_out_meta(const at::Tensor& a, const at::Tensor& b,
                      const std::optional<at::Tensor>& offs, const std::optional<at::Tensor>& bias,
                      Name activation, const MmOptions& options, at::Tensor& out) {
  const auto [sizes, type] = check_grouped_request(a, b, offs, bias, activation, false, options);
  const OutShape shape = check_out(a, out, type, sizes);
  check_no_self_overlap(out);
  if (shape == OutShape::ToBeResized) out.resize__symint(sizes);
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
  m.impl("mm", kernel<&mm_meta>);
  m.impl("bmm", kernel<&bmm_meta>);
  m.impl("mm.out", kernel<&product_out_meta<&check_mm>>);
  m.impl("bmm.out", kernel<&product_out_meta<&check_bmm>>);
  m.impl("addmm", kernel<&addmm_meta<&check_addmm>>);
  m.impl("addmm.out", kernel<&addmm_out_meta<&check_addmm>>);
  m.impl("baddbmm", kernel<&addmm_meta<&check_baddbmm>>);
  m.impl("baddbmm.out", kernel<&addmm_out_meta<&check_baddbmm>>);
  m.impl("_addmm_with_before", kernel<&addmm_with_before_meta>);
  m.impl("linear", kernel<&linear_meta>);
  m.impl("linear.out", kernel<&linear_out_meta>);
  m.impl("_linear_with_before", kernel<&linear_with_before_meta>);
  m.impl("grouped_mm", kernel<&grouped_meta>);
  m.impl("grouped_mm.out", kernel<&grouped_out_meta>);
  m.impl("_grouped_mm_with_before", kernel<&grouped_with_before_meta>);
  m.impl("_add_grouped_weight_grad", kernel<&add_grouped_weight_grad_meta>);
  m.impl("activation_backward", &activation_backward_meta);
  m.impl("fp16x3_recomputed", &fp16x3_recomputed_meta);
}

}  // namespace tiled
