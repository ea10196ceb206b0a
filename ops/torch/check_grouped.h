// check.h for grouped products: torch.nn.functional.grouped_mm's rules and texts where it has some.
// Sizes are read as SymInts; offsets are data, and are not read here.
#pragma once

#include "torch/activation.h"
#include "torch/check_addmm.h"

namespace tiled {

// The sizes of a grouped product: `groups` products, which share out one of the sizes.
struct GroupedShape {
  Shared shared;
  c10::SymInt groups, m, n, k;  // the shared one is the sum of the groups'

  // Groups share out C's rows or columns, else C has an entry for every group.
  bool c_is_matrix() const { return shared == Shared::M || shared == Shared::N; }

  c10::SymDimVector sizes() const {
    return c_is_matrix() ? c10::SymDimVector{m, n} : c10::SymDimVector{groups, m, n};
  }
};

inline void check_offs(const at::Tensor& offs) {
  TORCH_CHECK(offs.dim() == 1, "offs has to be 1D");
  TORCH_CHECK(offs.scalar_type() == at::kInt || offs.scalar_type() == at::kLong,
              "Offsets have to be int32 or int64, got ", offs.scalar_type());
}

// a [T, K] and b [E, K, N]: rows are shared out. a [E, M, K] and b [K, T]: columns are.
// a [M, T] and b [T, N]: K is. a [E, M, K] and b [E, K, N]: nothing is, and there are no offsets.
// The bias is [E, N].
inline GroupedShape grouped_shape(const at::Tensor& a, const at::Tensor& b,
                                  const std::optional<at::Tensor>& offs) {
  TORCH_CHECK(a.dim() == 2 || a.dim() == 3, "mat_a has to be 2 or 3d");
  TORCH_CHECK(b.dim() == 2 || b.dim() == 3, "mat_b has to be 2 or 3d");
  const bool a_is_matrix = a.dim() == 2, b_is_matrix = b.dim() == 2;
  GroupedShape shape;
  shape.shared = a_is_matrix ? (b_is_matrix ? Shared::K : Shared::M)
                             : (b_is_matrix ? Shared::N : Shared::Nothing);
  shape.m = a.sym_size(-2), shape.n = b.sym_size(-1), shape.k = a.sym_size(-1);
  TORCH_SYM_CHECK(shape.k.sym_eq(b.sym_size(-2)),
                  "contraction dimension of mat_a and mat_b must match, but they are ", shape.k,
                  " and ", b.sym_size(-2));
  TORCH_CHECK(offs.has_value() == (a_is_matrix || b_is_matrix),
              "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are "
              "3d");
  if (offs) check_offs(*offs);
  shape.groups = offs ? offs->sym_size(0) : a.sym_size(0);
  if (offs && !(a_is_matrix && b_is_matrix)) {
    const c10::SymInt entries = a_is_matrix ? b.sym_size(0) : a.sym_size(0);
    TORCH_SYM_CHECK(shape.groups.sym_eq(entries),
                    "matrix batch sizes have to match: the 3d matrix has ", entries,
                    " entries, and offs ", shape.groups);
  } else if (!offs) {
    TORCH_SYM_CHECK(shape.groups.sym_eq(b.sym_size(0)),
                    "batched dimension has to match, but they are ", shape.groups, " and ",
                    b.sym_size(0));
  }
  check_same_device(a, b, "tiled::grouped_mm", "mat_b");
  if (offs) check_same_device(a, *offs, "tiled::grouped_mm", "offs");
  return shape;
}

// The bias of groups whose products have this dtype.
inline void check_grouped_bias(const at::Tensor& a, at::ScalarType dtype, const at::Tensor& bias,
                               const GroupedShape& shape) {
  TORCH_CHECK(shape.shared != Shared::N,
              "tiled_mm: a bias is [E, N], a row for every group, and here groups share out the "
              "columns of mat_b, so that no group has N of them");
  TORCH_CHECK(bias.dim() == 2, "tiled_mm: the bias of a grouped product is [E, N], got ",
              bias.dim(), "-D tensor");
  TORCH_SYM_CHECK(bias.sym_size(0).sym_eq(shape.groups).sym_and(bias.sym_size(1).sym_eq(shape.n)),
                  "tiled_mm: the bias of a grouped product has shape [E, N], here [", shape.groups,
                  ", ", shape.n, "], got ", bias.sym_sizes());
  check_same_device(a, bias, "tiled::grouped_mm", "bias");
  TORCH_CHECK(may_be_added(bias.scalar_type(), dtype), "Expected bias to have dtype ",
              c10::scalarTypeToTypeMeta(dtype).name(), ", but got ", bias.dtype().name(),
              " instead");
}

inline GroupedShape check_grouped(const at::Tensor& a, const at::Tensor& b,
                                  const std::optional<at::Tensor>& offs,
                                  const std::optional<at::Tensor>& bias = std::nullopt) {
  const GroupedShape shape = grouped_shape(a, b, offs);
  check_same_dtype(a, b);
  if (bias) check_grouped_bias(a, a.scalar_type(), *bias, shape);
  return shape;
}

// Sums as they are may be int32 of bytes; see check_finished_out_dtype().
inline at::ScalarType check_grouped_out_dtype(at::ScalarType dtype, bool is_finished,
                                              const MmOptions& options) {
  return is_finished ? check_finished_out_dtype(dtype, options) : check_out_dtype(dtype, options);
}

// `sum` [E, P, Q], to which products of a group's rows of left [T, P] and right [T, Q] are added;
// its dtype is that of the product of these or, of 16-bit ones, float.
inline GroupedShape check_grouped_weight_grad(const at::Tensor& sum, const at::Tensor& left,
                                              const at::Tensor& right, const at::Tensor& offs) {
  TORCH_CHECK(left.dim() == 2 && right.dim() == 2 && sum.dim() == 3,
              "tiled_mm: the gradient of grouped weights takes sums [E, N, K], a gradient [T, N] "
              "and x [T, K], but they are ",
              sum.dim(), "D, ", left.dim(), "D and ", right.dim(), "D");
  GroupedShape shape = check_grouped(left.mT(), right, offs);
  const c10::SymDimVector sizes = shape.sizes();
  TORCH_CHECK(sum.sym_sizes() == c10::SymIntArrayRef(sizes), "tiled_mm: the sums have shape ",
              sum.sym_sizes(), ", and what is added to them ", c10::SymIntArrayRef(sizes));
  check_same_device(left, sum, "tiled::_add_grouped_weight_grad", "sum");
  return shape;
}

}  // namespace tiled
