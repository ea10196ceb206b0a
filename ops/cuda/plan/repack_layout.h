// Where a copied operand is: with a pitch of whole cache lines. Pure, for the planner and the
// launch.
#pragma once

#include "cuda/plan/plan.h"
#include "cuda/plan/sides.h"

namespace tiled {

// The copy, if there is one, keeps the dimension along which the operand is contiguous; tf32 and
// elements of 8 bits are laid along K, and so is what has no stride of 1.
inline CopyTo repacked_to(const Side& side, DType dtype, bool is_copied = true) {
  if (!is_copied) return CopyTo::Nothing;
  const bool along_k = dtype == DType::Float32 || size_of(dtype) == 1;
  const bool keeps_direction =
      (side.k_stride == 1 && side.k > 1) || (!along_k && side.row_stride == 1 && side.rows > 1);
  return keeps_direction && is_mn_major(side) ? CopyTo::AlongRows : CopyTo::AlongK;
}

inline int64_t entries_of(const Side& side, int64_t batch) {
  return side.batch_stride == 0 ? 1 : batch;
}

constexpr int64_t LINE_BYTES = 128;

// An operand as the product reads it. A copy stands at a multiple of 16 bytes, and has no address
// yet. Where it is spaced, group g of K, whose first element is number `begin`, has its first line
// behind begin / line + g others: no two groups have one in common, and the rest of a line is
// zeros. The scales of such groups are numbered alike (core/scales.h).
inline Side copied(const Side& side, DType dtype, CopyTo to) {
  if (to == CopyTo::Nothing) return side;
  const bool along_rows = to == CopyTo::AlongRows;
  const int64_t line = LINE_BYTES / size_of(dtype);  // elements
  Side copy = side;
  if (to == CopyTo::Spaced)
    copy.k = saturating_product(saturating_sum(side.k / line, side.groups_of_k), line);
  const int64_t along = along_rows ? side.rows : copy.k;
  const int64_t pitch = (along + line - 1) / line * line;
  copy.data = nullptr;
  copy.row_stride = along_rows ? 1 : pitch;
  copy.k_stride = along_rows ? pitch : 1;
  copy.batch_stride = side.batch_stride == 0 ? 0 : (along_rows ? side.k : side.rows) * pitch;
  copy.alignment = 16;
  return copy;
}

// Whether groups of K that begin at multiples of 16 are read where they are, and not copied. The
// kernels of scaled products do that, if TMA can read the operand there.
inline bool is_in_place(const Side& side, const Problem& problem) {
  return is_scaled(problem) && side.data != nullptr &&
         reinterpret_cast<intptr_t>(side.data) % 16 == 0 && side.k_stride == 1 &&
         side.row_stride > 0 && side.row_stride % 16 == 0;
}

inline int64_t copy_bytes(const Side& copy, const Problem& problem) {
  const bool along_rows = copy.row_stride == 1 && copy.k_stride != 1;
  return entries_of(copy, problem.batch) *
         (along_rows ? copy.k * copy.k_stride : copy.rows * copy.row_stride) *
         size_of(problem.dtype);
}

}  // namespace tiled
