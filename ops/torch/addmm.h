// addmm, baddbmm and linear of a backend (product.h).
#pragma once

#include <ATen/TensorUtils.h>
#include <torch/library.h>

#include <array>

#include "torch/check_addmm.h"
#include "torch/finished.h"
#include "torch/forms.h"
#include "torch/options.h"

namespace tiled {

// addmm or baddbmm, by its check (forms.h).
template <typename Backend, auto CHECK_ALL>
at::Tensor addmm_product(at::Tensor* pre_activation, at::Tensor* out, const at::Tensor& input,
                         const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                         const at::Scalar& alpha, std::optional<std::string_view> activation,
                         const MmOptions& options) {
  CHECK_ALL(input, a, b);
  std::optional<at::Tensor> target;
  if (out != nullptr) {
    c10::SymDimVector sizes(a.sym_sizes().begin(), a.sym_sizes().end());
    sizes.back() = b.size(-1);
    const at::ScalarType type = check_finished_out_dtype(a.scalar_type(), options);
    if (check_out(a, *out, type, sizes) == OutShape::Fits) target = *out;
  }
  auto [c, of_pre_activation] = finished_product<Backend>(
      a, b, {{}, "n", input, alpha, beta, activation, pre_activation != nullptr, target}, options);
  if (pre_activation != nullptr) *pre_activation = std::move(of_pre_activation);
  if (out != nullptr && !target) write_out(*out, c);
  return std::move(c);
}

// `out` [..., N] as the matrix [m, n] that a kernel may write to; undefined where its strides make
// none, or where it may share memory with what is read. It is refused where that is certain.
inline at::Tensor linear_target(const at::Tensor& out, const at::Tensor& x,
                                const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                int64_t m, int64_t n) {
  bool apart = true;
  for (const at::Tensor* t : {&x, &weight, bias ? &*bias : nullptr})
    if (t != nullptr && may_overlap_unless_certain(out, *t)) apart = false;
  const std::array<int64_t, 2> sizes = {m, n};
  const auto strides =
      at::detail::computeStride(out.sizes(), out.strides(), at::IntArrayRef(sizes));
  const at::Tensor matrix = strides ? out.view(sizes) : at::Tensor();
  check_no_self_overlap(strides ? matrix : out);
  return apart ? matrix : at::Tensor();
}

// activation(x weight^T + bias) (forms.h); `out` is resized where it has no elements. A call
// allocates nothing but the results: weight is transposed by its strides.
template <typename Backend>
at::Tensor linear_product(at::Tensor* pre_activation, at::Tensor* out, const at::Tensor& x,
                          const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                          std::optional<std::string_view> activation, const MmOptions& options) {
  const LinearShape shape = check_linear(x, weight, bias);
  const int64_t m = shape.rows.expect_int(), n = shape.columns.expect_int(), k = x.size(-1);
  const at::ScalarType dtype = x.scalar_type(), type = check_finished_out_dtype(dtype, options);
  const c10::SymDimVector sizes = linear_sizes(x, weight);
  const bool resizes = out != nullptr && check_out(x, *out, type, sizes) == OutShape::ToBeResized;
  if (resizes) check_no_self_overlap(*out);
  const Arithmetic arithmetic = resolve_arithmetic(dtype, Backend::target(x), options);
  at::Tensor folded, row, wide_bias;  // where a tensor itself is not the matrix that is read
  if (x.dim() != 2) {
    check_allocated(x);  // reshape may copy
    folded = x.reshape({m, k});
  }
  if (weight.dim() != 2) {
    check_allocated(weight);  // as torch's views of it would have other words
    row = weight.unsqueeze(0);
  }
  Problem problem = problem_of(operand_of(folded.defined() ? folded : x),
                               transposed(operand_of(row.defined() ? row : weight)), 1, m, n, k,
                               dtype_of(dtype), type, arithmetic);
  Epilogue& epilogue = problem.epilogue;
  epilogue.activation = check_activation(activation, dtype);
  if (bias && bias->dim() == 1 && bias->size(0) == n) {
    epilogue.bias_along = Along::N;
    epilogue.bias = address_of(*bias);
    epilogue.bias_stride = n > 1 ? bias->stride(0) : 0;
    epilogue.bias_dtype = dtype_of(bias->scalar_type());
  } else if (bias) {
    check_allocated(*bias);
    wide_bias = expanded_bias(*bias, x, shape, sizes);
    epilogue.beta = {};
    add_input(epilogue, wide_bias, wide_bias.sizes());
  }
  at::Tensor target;
  if (out != nullptr && !resizes) target = linear_target(*out, x, weight, bias, m, n);
  if (target.defined()) problem.c = result_of(target);
  const at::IntArrayRef c_sizes = C10_AS_INTARRAYREF_SLOW(c10::SymIntArrayRef(sizes));
  if (pre_activation != nullptr) {
    *pre_activation = Backend::empty(c_sizes, type, x);
    epilogue.pre_activation = {pre_activation->mutable_data_ptr(), n, 1, 0, epilogue.out_dtype};
  }
  const auto plan = Backend::plan(problem, options, x);

  at::Tensor c = target;
  if (!c.defined()) {
    c = Backend::empty(c_sizes, type, x);
    problem.c.data = c.mutable_data_ptr();
  }
  if (c.numel() > 0) Backend::run(problem, plan, x);
  if (out != nullptr && !target.defined()) write_out(*out, c);
  return c;
}

// Every operator of this file, of a backend.
template <typename Backend>
void register_addmm(torch::Library& m) {
  using OfMatrices = Forms<&addmm_product<Backend, &check_addmm>>;
  using OfBatches = Forms<&addmm_product<Backend, &check_baddbmm>>;
  using OfEither = Forms<&addmm_product<Backend, &check_addmm_or_baddbmm>>;
  using Linear = Forms<&linear_product<Backend>>;
  m.impl("addmm", kernel<&OfMatrices::product>);
  m.impl("addmm.out", kernel<&OfMatrices::out>);
  m.impl("baddbmm", kernel<&OfBatches::product>);
  m.impl("baddbmm.out", kernel<&OfBatches::out>);
  m.impl("_addmm_with_pre_activation", kernel<&OfEither::with_pre_activation>);
  m.impl("linear", kernel<&Linear::product>);
  m.impl("linear.out", kernel<&Linear::out>);
  m.impl("_linear_with_pre_activation", kernel<&Linear::with_pre_activation>);
}

}  // namespace tiled
