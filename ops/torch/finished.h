// Products with an epilogue (core/epilogue.h): C = activation(alpha A B + bias + beta input). What
// is asked, as tensors and scalars; its checks, in torch's words; and the product itself.
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/ScalarOps.h>

#include <optional>
#include <string_view>
#include <tuple>

#include "torch/activation.h"
#include "torch/check_addmm.h"
#include "torch/product.h"

namespace tiled {

struct EpilogueOptions {
  std::optional<at::Tensor> bias;              // [N] or [M]; of a batch also [B, N] or [B, M]
  std::string_view bias_along;                 // "n" or "m": the index of C that picks its element
  std::optional<at::Tensor> input;             // expands to C
  at::Scalar alpha = 1, beta = 1;              // where beta is 0 the input is not read
  std::optional<std::string_view> activation;  // see parse_activation()
  bool pre_activation = false;                 // return the pre-activation as well
  std::optional<at::Tensor> out;               // C; may be the input itself
};

// Torch's own conversions refuse, in its words, a number that the sums' type does not hold.
inline void check_range(const at::Scalar& scalar, at::ScalarType dtype) {
  if (at::isIntegralType(dtype, false))
    AT_DISPATCH_INTEGRAL_TYPES(dtype, "tiled_mm", [&] { (void)scalar.to<scalar_t>(); });
  else if (sums_are_floats(dtype))
    (void)scalar.toFloat();
  else if (dtype == at::kComplexFloat)
    (void)scalar.toComplexFloat();
}

// A scalar in the arithmetic of `dtype`; torch.addmm's refusals.
inline Factor factor_of(const at::Scalar& scalar, at::ScalarType dtype, const char* name) {
  TORCH_CHECK(!at::isIntegralType(dtype, false) || scalar.isIntegral(/*includeBool=*/true),
              "For integral input tensors, argument ", name,
              " must not be a floating point number.");
  TORCH_CHECK(at::isComplexType(dtype) || !scalar.isComplex(),
              "For non-complex input tensors, argument ", name, " must not be a complex number.");
  check_range(scalar, dtype);
  const c10::complex<double> value = scalar.toComplexDouble();
  // A float counts as the integer 1 or 0 (Factor::is), and as no other.
  return {value.real(), value.imag(),
          scalar.isIntegral(true) ? scalar.toLong() : static_cast<int64_t>(value.real() == 1)};
}

// Bias and input of fp32 sums may be float, half or bfloat16; of all others they have A's dtype,
// `dtype`, or that of A's products, if they are scaled.
inline void check_companion(const at::Tensor& a, at::ScalarType dtype, const at::Tensor& t,
                            const char* name) {
  check_same_device(a, t, "tiled::mm", name);
  TORCH_CHECK(may_be_added(t.scalar_type(), dtype), "Expected ", name, " to have dtype ",
              c10::scalarTypeToTypeMeta(dtype).name(), ", but got ", t.dtype().name(), " instead");
  check_allocated(t);
}

// Whether C is written over exactly the elements that are read.
inline bool is_in_place(const Problem& problem) {
  const auto& [data, row_stride, col_stride, batch_stride, dtype] = problem.epilogue.input;
  const Result& c = problem.c;
  return data == c.data && dtype == problem.epilogue.out_dtype && row_stride == c.row_stride &&
         col_stride == c.col_stride && batch_stride == c.batch_stride;
}

// out= as check_out() of mm, but never resized: what it holds may be the input.
inline void check_finished_out(const at::Tensor& a, const at::Tensor& out, at::ScalarType type,
                               at::IntArrayRef sizes) {
  check_same_device(a, out, "tiled::mm", "out");
  TORCH_CHECK(out.scalar_type() == type, "Expected out tensor to have dtype ",
              c10::scalarTypeToTypeMeta(type).name(), ", but got ", out.dtype().name(), " instead");
  TORCH_CHECK(out.sizes() == sizes, "tiled_mm: out has shape ", out.sizes(),
              ", which does not match the required output shape ", sizes);
  check_no_self_overlap(out);
}

// `input`, expanded to C's shape, times the beta that is set already. One row or column for all of
// C is a bias where nothing multiplies it or the sum: 1 * input + (sum + 0) is sum + bias, as no
// sum is -0; and kernels read it once and not for every element. C itself is no such input, so that
// it may be written meanwhile.
inline void add_input(Epilogue& e, const at::Tensor& input, at::IntArrayRef sizes) {
  const Operand operand = expanded_operand(input, sizes);
  const int64_t m = sizes[sizes.size() - 2], n = sizes.back();
  const bool is_row = m > 1 && operand.row_stride == 0,
             is_column = n > 1 && operand.col_stride == 0;
  if (e.bias_along == Along::Nothing && e.alpha.is(1) && e.beta.is(1) && (is_row || is_column)) {
    e.bias_along = is_row ? Along::N : Along::M;
    e.bias = operand.data;
    e.bias_stride = is_row ? operand.col_stride : operand.row_stride;
    e.bias_batch_stride = operand.batch_stride;
    e.bias_dtype = dtype_of(input.scalar_type());
    e.beta = {0, 0, 0};
    return;
  }
  e.input = {operand.data, operand.row_stride, operand.col_stride, operand.batch_stride,
             dtype_of(input.scalar_type())};
}

// Checks what is asked and puts it into the problem's epilogue.
inline void fill_epilogue(Problem& problem, const at::Tensor& a, const EpilogueOptions& asked,
                          at::IntArrayRef sizes) {
  Epilogue& e = problem.epilogue;
  const at::ScalarType dtype = is_scaled(problem) ? at::kFloat : a.scalar_type();
  e.activation = check_activation(asked.activation, dtype);
  e.alpha = factor_of(asked.alpha, dtype, "alpha");
  if (asked.bias) {
    TORCH_CHECK(asked.bias_along == "n" || asked.bias_along == "m",
                "tiled_mm: unknown bias_along '", std::string(asked.bias_along),
                "'; expected 'n' or 'm'");
    check_companion(a, dtype, *asked.bias, "bias");
    e.bias_along = asked.bias_along == "m" ? Along::M : Along::N;
    const at::Tensor& bias = *asked.bias;  // the batch counts as rows
    const Operand operand =
        expanded_operand(bias, {problem.batch, e.bias_along == Along::M ? problem.m : problem.n});
    e.bias = operand.data;
    e.bias_stride = operand.col_stride;
    e.bias_batch_stride = operand.row_stride;
    e.bias_dtype = dtype_of(bias.scalar_type());
  }
  if (asked.input) {
    check_companion(a, dtype, *asked.input, "input");
    e.beta = factor_of(asked.beta, dtype, "beta");
    add_input(e, *asked.input, sizes);
  }
}

// The problem's pre-activation goes to `pre_activation`, of C's dtype.
inline void keep_pre_activation(Problem& problem, at::Tensor& pre_activation) {
  const Operand operand = operand_of(pre_activation);
  problem.epilogue.pre_activation = {pre_activation.mutable_data_ptr(), operand.row_stride,
                                     operand.col_stride, operand.batch_stride,
                                     problem.epilogue.out_dtype};
}

// C, and the pre-activation, undefined where it is not asked for. a and b are matrices
// or batches of them.
template <typename Backend>
std::tuple<at::Tensor, at::Tensor> finished_product(const at::Tensor& a, const at::Tensor& b,
                                                    const EpilogueOptions& asked,
                                                    const MmOptions& options) {
  a.dim() == 3 ? check_bmm(a, b) : check_mm(a, b);
  const at::ScalarType type = check_finished_out_dtype(a.scalar_type(), options);
  at::DimVector sizes(a.sizes());
  sizes.back() = b.size(-1);
  if (asked.out) check_finished_out(a, *asked.out, type, sizes);
  const Arithmetic arithmetic = resolve_arithmetic(a.scalar_type(), Backend::target(a), options);
  at::Tensor c = asked.out.value_or(at::Tensor()), pre_activation;
  Problem problem = problem_of(a, b, type, arithmetic, c);
  fill_epilogue(problem, a, asked, sizes);

  // A tensor is read after C is written: refused where it is certain, computed aside where it is
  // not.
  bool aside = false;
  if (asked.out) {
    const auto keep_apart = [&](const at::Tensor& t) { aside |= may_overlap_unless_certain(c, t); };
    keep_apart(a);
    keep_apart(b);
    if (asked.bias) keep_apart(*asked.bias);
    const Epilogue& e = problem.epilogue;
    const bool is_bias = !asked.bias && e.bias_along != Along::Nothing;  // see add_input()
    if (asked.input && (e.reads_input() || is_bias) && !is_in_place(problem))
      keep_apart(asked.input->sizes() == sizes ? *asked.input : asked.input->expand(sizes));
  }
  if (aside) problem.c = problem_of(a, b, type, arithmetic).c;
  if (asked.pre_activation) {
    pre_activation = Backend::empty(sizes, type, a);
    keep_pre_activation(problem, pre_activation);
  }
  const auto plan = Backend::plan(problem, options, a);

  if (!asked.out || aside) {
    c = Backend::empty(sizes, type, a);
    problem.c.data = c.mutable_data_ptr();
  }
  if (c.numel() > 0) Backend::run(problem, plan, a);
  if (aside) c = asked.out->copy_(c);
  return {c, pre_activation};
}

// tiled_debug::mm_with_epilogue
template <typename Backend>
std::tuple<at::Tensor, at::Tensor> mm_with_epilogue(
    const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& bias,
    std::string_view bias_along, const std::optional<at::Tensor>& input, const at::Scalar& alpha,
    const at::Scalar& beta, std::optional<std::string_view> activation, bool pre_activation,
    std::optional<at::Tensor> out, const MmOptions& options) {
  return finished_product<Backend>(
      a, b, {bias, bias_along, input, alpha, beta, activation, pre_activation, std::move(out)},
      options);
}

}  // namespace tiled
