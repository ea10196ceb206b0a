// Tensors to a Problem. Strides of dimensions of size 0 or 1 mean nothing in torch; they become 0.
#pragma once

#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>

#include <utility>

#include "core/problem.h"
#include "torch/check.h"

namespace tiled {

// The last two dimensions are the matrix; the one before, if any, the batch.
inline Operand operand_of(const at::Tensor& t, DType dtype, at::IntArrayRef sizes,
                          at::IntArrayRef strides) {
  const size_t dims = sizes.size();
  const auto stride = [&](size_t dim) { return sizes[dim] > 1 ? strides[dim] : 0; };
  Operand operand;
  operand.data = address_of(t);
  operand.row_stride = stride(dims - 2);
  operand.col_stride = stride(dims - 1);
  operand.batch_stride = dims == 3 ? stride(0) : 0;
  operand.alignment = alignment_of(operand.data, dtype, operand.row_stride, operand.col_stride,
                                   operand.batch_stride);
  return operand;
}

inline Operand operand_of(const at::Tensor& t, DType dtype) {
  return operand_of(t, dtype, t.sizes(), t.strides());
}
inline Operand operand_of(const at::Tensor& t) { return operand_of(t, dtype_of(t.scalar_type())); }

// The same of t.expand(sizes), with its refusals, but without that tensor.
inline Operand expanded_operand(const at::Tensor& t, at::IntArrayRef sizes) {
  if (t.sizes() == sizes) return operand_of(t);
  if (t.dim() > static_cast<int64_t>(sizes.size())) t.expand(sizes);  // refuses
  const auto expanded = at::inferExpandGeometry_dimvector(t.sizes(), t.strides(), sizes);
  return operand_of(t, dtype_of(t.scalar_type()), expanded.sizes, expanded.strides);
}

// The operand's transpose.
inline Operand transposed(Operand operand) {
  std::swap(operand.row_stride, operand.col_stride);
  return operand;
}

// Without c the result is taken as contiguous and its address left empty, so that the product can
// be planned, and refused, before anything is allocated.
inline Problem problem_of(const Operand& a, const Operand& b, int64_t batch, int64_t m, int64_t n,
                          int64_t k, DType dtype, at::ScalarType result_type,
                          Arithmetic arithmetic) {
  Problem problem;
  problem.batch = batch;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.dtype = dtype;
  problem.arithmetic = arithmetic;
  problem.a = a;
  problem.b = b;
  problem.epilogue.out_dtype = dtype_of(result_type);
  const int64_t entry = m * n;
  problem.c = {nullptr, n, 1, entry,
               alignment_of(nullptr, problem.epilogue.out_dtype, n, 1, entry)};
  return problem;
}

// C, to be written where this tensor is.
inline Result result_of(const at::Tensor& c) {
  const Operand operand = operand_of(c);
  return {c.mutable_data_ptr(), operand.row_stride, operand.col_stride, operand.batch_stride,
          operand.alignment};
}

inline Problem problem_of(const at::Tensor& a, const at::Tensor& b, at::ScalarType result_type,
                          Arithmetic arithmetic, const at::Tensor& c = {}) {
  Problem problem = problem_of(operand_of(a), operand_of(b), a.dim() == 3 ? a.size(0) : 1,
                               a.size(a.dim() - 2), b.size(b.dim() - 1), a.size(a.dim() - 1),
                               dtype_of(a.scalar_type()), result_type, arithmetic);
  if (c.defined()) problem.c = result_of(c);
  return problem;
}

}  // namespace tiled
