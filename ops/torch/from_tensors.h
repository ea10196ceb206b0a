// Tensors to a Problem. Strides of dimensions of size 0 or 1 mean nothing in torch; they become 0.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/problem.h"
#include "torch/check.h"

namespace tiled {

// The last two dimensions are the matrix; the one before, if any, the batch.
inline Operand operand_of(const at::Tensor& t) {
  const auto stride = [&](int64_t dim) { return t.size(dim) > 1 ? t.stride(dim) : 0; };
  Operand operand;
  // Meta tensors, and what functorch and FakeTensorMode wrap, have no memory.
  operand.data = t.is_meta() || !t.has_storage() ? nullptr : t.const_data_ptr();
  operand.row_stride = stride(t.dim() - 2);
  operand.col_stride = stride(t.dim() - 1);
  operand.batch_stride = t.dim() == 3 ? stride(0) : 0;
  operand.alignment = alignment_of(operand.data, dtype_of(t.scalar_type()), operand.row_stride,
                                   operand.col_stride, operand.batch_stride);
  return operand;
}

// Without c the result is taken as contiguous and its address left empty, so that the product can
// be planned, and refused, before anything is allocated.
inline Problem problem_of(const at::Tensor& a, const at::Tensor& b, at::ScalarType result_type,
                          Arithmetic arithmetic, const at::Tensor& c = {}) {
  Problem problem;
  problem.batch = a.dim() == 3 ? a.size(0) : 1;
  problem.m = a.size(a.dim() - 2);
  problem.n = b.size(b.dim() - 1);
  problem.k = a.size(a.dim() - 1);
  problem.dtype = dtype_of(a.scalar_type());
  problem.arithmetic = arithmetic;
  problem.a = operand_of(a);
  problem.b = operand_of(b);
  problem.epilogue.out_dtype = dtype_of(result_type);
  if (c.defined()) {
    const Operand operand = operand_of(c);
    problem.c = {c.mutable_data_ptr(), operand.row_stride, operand.col_stride, operand.batch_stride,
                 operand.alignment};
  } else {
    const int64_t entry = problem.m * problem.n;
    problem.c = {nullptr, problem.n, 1, entry,
                 alignment_of(nullptr, problem.epilogue.out_dtype, problem.n, 1, entry)};
  }
  return problem;
}

}  // namespace tiled
