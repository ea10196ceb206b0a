// tiled::activation_backward around the kernels of a backend: checks, tensors to a GradientPass
// (core/gradient_pass.h), allocation. A Backend has
//   static at::Tensor empty(at::IntArrayRef sizes, at::ScalarType, const at::Tensor& like);
//   static void run(const GradientPass&, const at::Tensor& like);
#pragma once

#include <ATen/ops/view_as_real.h>

#include <optional>
#include <string_view>
#include <tuple>

#include "core/gradient_pass.h"
#include "torch/activation.h"
#include "torch/check_addmm.h"

namespace tiled {

// gradient [..., N] of floating-point or complex numbers, and, where there is an activation, a
// tensor `pre_activation` of its shape, dtype and device. Returns the activation.
inline Activation check_activation_backward(const at::Tensor& gradient,
                                            const std::optional<at::Tensor>& pre_activation,
                                            std::optional<std::string_view> name,
                                            std::optional<at::ScalarType> bias_dtype) {
  const at::ScalarType type = gradient.scalar_type();
  const Activation activation = check_activation(name, type);
  dtype_of(type);  // or its refusal
  TORCH_CHECK_NOT_IMPLEMENTED(!at::isIntegralType(type, /*includeBool=*/true),
                              "tiled_mm: a gradient has a floating-point or complex dtype, got ",
                              type);
  TORCH_CHECK(gradient.dim() > 0, "tiled_mm: a gradient has one dimension at least");
  if (activation != Activation::None) {
    TORCH_CHECK(pre_activation.has_value() && pre_activation->defined(),
                "tiled_mm: the gradient through '", std::string(name_of(activation)),
                "' needs the value before it");
    check_same_device(gradient, *pre_activation, "tiled::activation_backward", "before");
    TORCH_CHECK(pre_activation->scalar_type() == type, "Expected before to have dtype ",
                gradient.dtype().name(), ", but got ", pre_activation->dtype().name(), " instead");
    TORCH_CHECK(pre_activation->sym_sizes() == gradient.sym_sizes(), "tiled_mm: before has shape ",
                pre_activation->sym_sizes(), ", and its gradient ", gradient.sym_sizes());
  }
  TORCH_CHECK(!bias_dtype || may_be_added(*bias_dtype, type), "tiled_mm: the bias of a ", type,
              " product has no dtype ", bias_dtype.value_or(type));
  return activation;
}

// The gradient that an activation passes on, and a bias' gradient, each of no elements where it is
// not asked.
template <typename Backend>
std::tuple<at::Tensor, at::Tensor> activation_backward(
    const at::Tensor& gradient, const std::optional<at::Tensor>& pre_activation,
    std::optional<std::string_view> name, std::optional<at::ScalarType> bias_dtype) {
  const Activation activation =
      check_activation_backward(gradient, pre_activation, name, bias_dtype);
  const at::ScalarType type = gradient.scalar_type();
  const bool is_complex = at::isComplexType(type), passes = activation != Activation::None;
  const int64_t columns = gradient.size(-1), elements = gradient.numel();
  check_allocated(gradient);
  if (passes) check_allocated(*pre_activation);
  at::Tensor result = passes ? Backend::empty(gradient.sizes(), type, gradient)
                             : Backend::empty({0}, type, gradient);
  at::Tensor bias = bias_dtype ? Backend::empty({columns}, *bias_dtype, gradient)
                               : Backend::empty({0}, type, gradient);
  if (elements == 0) {
    bias.zero_();
    return {std::move(result), std::move(bias)};
  }
  // The columns of complex numbers are twice as many real ones.
  const int64_t parts = is_complex ? 2 : 1;
  const auto as_rows = [&](const at::Tensor& t) {
    const at::Tensor real = is_complex ? at::view_as_real(t.contiguous()) : t;
    return real.reshape({elements / columns, columns * parts});
  };
  const auto operand_of = [](const at::Tensor& t) {
    const auto stride = [&](int64_t dim) { return t.size(dim) > 1 ? t.stride(dim) : 0; };
    // A single column has neighbours too.
    return GradientOperand{t.const_data_ptr(), stride(0), t.size(1) > 1 ? t.stride(1) : 1};
  };
  const at::Tensor rows = as_rows(gradient),
                   pre_activation_rows = passes ? as_rows(*pre_activation) : rows;
  GradientPass pass;
  pass.rows = rows.size(0);
  pass.columns = rows.size(1);
  pass.dtype = dtype_of(rows.scalar_type());
  pass.activation = activation;
  pass.gradient = operand_of(rows);
  pass.pre_activation = operand_of(pre_activation_rows);
  if (passes) pass.result = result.mutable_data_ptr();
  if (bias_dtype) {
    pass.bias = bias.mutable_data_ptr();
    pass.bias_dtype = dtype_of(c10::toRealValueType(*bias_dtype));
  }
  if (passes || bias_dtype) Backend::run(pass, gradient);
  return {std::move(result), std::move(bias)};
}

}  // namespace tiled
