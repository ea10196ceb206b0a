// check.h for products with an input or a bias: torch.addmm's, torch.baddbmm's and
// torch.nn.functional.linear's rules and texts. What decides between them and C's size is read as
// SymInts.
#pragma once

#include <ATen/ExpandUtils.h>

#include "torch/check.h"

namespace tiled {

// Whether sums of this dtype are fp32, so that what is added to them may be of any such dtype.
inline bool sums_are_floats(at::ScalarType type) { return type == at::kFloat || is_16_bit(type); }

// Whether what is added to a product of A and B may have this dtype.
inline bool may_be_added(at::ScalarType added, at::ScalarType dtype) {
  return added == dtype || (sums_are_floats(added) && sums_are_floats(dtype));
}

// torch.addmm's, also of linear where there is a bias. `note` says whose names these are, if not
// the caller's.
inline void check_addmm_dtypes(const at::Tensor& input, const at::Tensor& a, const at::Tensor& b,
                               const char* note = "") {
  TORCH_CHECK(may_be_added(input.scalar_type(), b.scalar_type()),
              "self and mat2 must have the same dtype, but got ", input.scalar_type(), " and ",
              b.scalar_type(), note);
  TORCH_CHECK(a.scalar_type() == b.scalar_type(),
              "mat1 and mat2 must have the same dtype, but got ", a.scalar_type(), " and ",
              b.scalar_type());
}

// a [M, K] and b [K, N] of one dtype, and input, which expands to [M, N], on one device.
inline void check_addmm(const at::Tensor& input, const at::Tensor& a, const at::Tensor& b) {
  check_addmm_dtypes(input, a, b);
  TORCH_CHECK(a.dim() == 2, "mat1 must be a matrix, got ", a.dim(), "-D tensor");
  TORCH_CHECK(b.dim() == 2, "mat2 must be a matrix, got ", b.dim(), "-D tensor");
  check_mm(a, b);
  check_same_device(a, input, "tiled::addmm", "input");
}

// a [B, M, K] and b [B, K, N] of one dtype, and input, which expands to [B, M, N], on one device.
inline void check_baddbmm(const at::Tensor& input, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(may_be_added(input.scalar_type(), a.scalar_type()),
              "Input dtypes must be the same, got: input ", input.dtype().name(),
              ", batch1: ", a.dtype().name(), ", batch2: ", b.dtype().name());
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "expected scalar type ", a.scalar_type(),
              " but found ", b.scalar_type());
  check_bmm(a, b);
  check_same_device(a, input, "tiled::baddbmm", "input");
}

inline void check_addmm_or_baddbmm(const at::Tensor& input, const at::Tensor& a,
                                   const at::Tensor& b) {
  a.dim() == 3 ? check_baddbmm(input, a, b) : check_addmm(input, a, b);
}

// The one matrix product that linear computes: x with its leading dimensions in one.
struct LinearShape {
  c10::SymInt rows;     // of x, all of them
  c10::SymInt columns;  // of C
};

// x [..., K] and weight [N, K] or [K] of one dtype, and a bias, on one device; see expanded_bias()
// for the bias' shape.
inline LinearShape check_linear(const at::Tensor& x, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias) {
  TORCH_CHECK(x.dim() != 0 && weight.dim() != 0,
              "both arguments to linear need to be at least 1D, but they are ", x.dim(), "D and ",
              weight.dim(), "D");
  TORCH_CHECK(weight.dim() <= 2, "t() expects a tensor with <= 2 dimensions, but self is ",
              weight.dim(), "D");
  TORCH_CHECK(weight.dim() == 2 || !bias, "mat2 must be a matrix, got 1-D tensor");
  if (bias) check_addmm_dtypes(*bias, x, weight, "\nself is linear's bias, mat2 its weight");
  c10::SymInt rows = 1;
  for (int64_t i = 0; i + 1 < x.dim(); ++i) rows = rows * x.sym_size(i);
  const c10::SymInt k = x.sym_size(-1), depth = weight.sym_size(-1);
  const auto fits = k.sym_eq(depth);
  if (weight.dim() == 1 && x.dim() == 1)
    TORCH_SYM_CHECK(fits, "inconsistent tensor size, expected tensor [", k, "] and src [", depth,
                    "] to have the same number of elements, but got ", k, " and ", depth,
                    " elements respectively");
  if (weight.dim() == 1)
    TORCH_SYM_CHECK(fits, "size mismatch, got input (", rows, "), mat (", rows, "x", k, "), vec (",
                    depth, ")");
  const c10::SymInt columns = weight.dim() == 2 ? weight.sym_size(0) : 1;
  TORCH_SYM_CHECK(fits, "mat1 and mat2 shapes cannot be multiplied (", rows, "x", k, " and ", depth,
                  "x", columns, ")");
  check_same_device(x, weight, "tiled::linear", "weight");
  check_same_dtype(x, weight);
  if (bias) check_same_device(x, *bias, "tiled::linear", "bias");
  return {rows, columns};
}

// The shape of linear's result: x's, with weight's rows in the place of the last dimension.
inline c10::SymDimVector linear_sizes(const at::Tensor& x, const at::Tensor& weight) {
  c10::SymDimVector sizes(x.sym_sizes().begin(), x.sym_sizes().end());
  if (weight.dim() == 2)
    sizes.back() = weight.sym_size(0);
  else
    sizes.pop_back();
  return sizes;
}

// The bias as [rows, columns]: one of at most one dimension, or added to a matrix x, expands to
// that, and so does [1, columns] for a vector x, the one case in which torch takes a bias of more
// dimensions than the result; any other must broadcast to the result, `sizes`.
inline at::Tensor expanded_bias(const at::Tensor& bias, const at::Tensor& x,
                                const LinearShape& shape, c10::SymIntArrayRef sizes) {
  const bool is_row_of_vector = x.dim() == 1 && bias.dim() == 2 &&
                                TORCH_GUARD_OR_FALSE(bias.sym_size(0).sym_eq(1).sym_and(
                                    bias.sym_size(1).sym_eq(shape.columns)));
  if (bias.dim() < 2 || x.dim() == 2 || is_row_of_vector)
    return bias.expand_symint({shape.rows, shape.columns});
  const c10::SymDimVector broadcast = at::infer_size_symdimvector(bias.sym_sizes(), sizes);
  TORCH_CHECK(c10::SymIntArrayRef(broadcast) == sizes, "output with shape ", sizes,
              " doesn't match the broadcast shape ", c10::SymIntArrayRef(broadcast));
  return bias.expand_symint(sizes).reshape_symint({shape.rows, shape.columns});
}

}  // namespace tiled
