// One group of a product with groups (problem.h), as a product of matrices. The same text for host
// and device.
#pragma once

#include "core/elementary.h"
#include "core/problem.h"

namespace tiled {
namespace detail {

// Moves a pointer by so many bytes. Null stays null.
template <typename Pointer>
TILED_HOST_DEVICE void move_by(Pointer& data, int64_t bytes) {
  if (data != nullptr) data = reinterpret_cast<Pointer>(reinterpret_cast<intptr_t>(data) + bytes);
}

// An operand or C, from its batch entry `entry` and `begin` along the shared index, which has this
// stride, on.
template <typename Matrix>
TILED_HOST_DEVICE void move_matrix(Matrix& x, DType dtype, int64_t entry, int64_t begin,
                                   int64_t stride) {
  const int64_t bytes = (entry * x.batch_stride + begin * stride) * size_of(dtype);
  const int32_t alignment = power_of_two_divisor(bytes);
  move_by(x.data, bytes);
  x.batch_stride = 0;
  if (alignment < x.alignment) x.alignment = alignment;
}

template <typename Pointer>
TILED_HOST_DEVICE void move_companion(Companion<Pointer>& x, int64_t entry, int64_t begin,
                                      Shared shared) {
  const int64_t stride = shared == Shared::M   ? x.row_stride
                         : shared == Shared::N ? x.col_stride
                                               : 0;
  move_by(x.data, (entry * x.batch_stride + begin * stride) * size_of(x.dtype));
  x.batch_stride = 0;
}

// The scales of a group, whose rows of A, or columns of B, begin at `row`, and its K at `block`.
TILED_HOST_DEVICE void move_scales(OperandScales& x, int64_t entry, int64_t row, int64_t block) {
  if (x.data != nullptr)
    x.data += entry * x.batch_stride + row * x.row_stride + block * x.block_stride;
  x.batch_stride = 0;
}

}  // namespace detail

// Group `group` of them, which has the part [begin, end) of the shared size.
TILED_HOST_DEVICE Problem problem_of_group(const Problem& all, int64_t group, int64_t begin,
                                           int64_t end) {
  Problem p = all;
  const Shared shared = all.groups.shared;
  const bool m = shared == Shared::M, n = shared == Shared::N, k = shared == Shared::K;
  p.groups = {};
  p.batch = 1;
  (m ? p.m : n ? p.n : p.k) = end - begin;
  detail::move_matrix(p.a, p.dtype, group, n ? 0 : begin, m ? p.a.row_stride : p.a.col_stride);
  detail::move_matrix(p.b, p.dtype, group, m ? 0 : begin, k ? p.b.row_stride : p.b.col_stride);
  Epilogue& e = p.epilogue;
  detail::move_matrix(p.c, e.out_dtype, group, k ? 0 : begin, m ? p.c.row_stride : p.c.col_stride);
  detail::move_companion(e.input, group, begin, shared);
  detail::move_companion(e.pre_activation, group, begin, shared);
  detail::move_by(e.bias, group * e.bias_batch_stride * size_of(e.bias_dtype));
  e.bias_batch_stride = 0;
  const int64_t block = k ? begin / SCALE_BLOCK + (all.scales.spaced ? group : 0) : 0;
  detail::move_scales(p.scales.a, group, m ? begin : 0, block);
  detail::move_scales(p.scales.b, group, n ? begin : 0, block);
  return p;
}

// The part behind the last group, from `begin` to the end of the shared size, which is not K: a
// product without any K and without an epilogue, so that C is zero there, as is the value before an
// activation. C has no entries then.
TILED_HOST_DEVICE Problem problem_behind_groups(const Problem& all, int64_t begin) {
  const int64_t end = all.groups.shared == Shared::M ? all.m : all.n;
  Problem p = problem_of_group(all, 0, begin, end);
  p.k = 0;
  Epilogue& e = p.epilogue;
  e.activation = Activation::None, e.bias_along = Along::Nothing;
  e.alpha = Factor(), e.beta = {0, 0, 0};
  return p;
}

}  // namespace tiled
