// Where a copied operand lies: with a pitch of whole cache lines. For hopper it keeps the direction
// that its elements lie along; tf32 is laid along K, and so is what has no stride of 1. For
// register_tile it is laid along m or n. Pure, for the planner and the launch.
#pragma once

#include "cuda/plan/sides.h"

namespace tiled {

// Whether rows are copied as they lie; else the matrix is gathered along K.
inline bool keeps_direction(const Side& side, DType dtype) {
  return (side.k_stride == 1 && side.k > 1) ||
         (dtype != DType::Float32 && side.row_stride == 1 && side.rows > 1);
}

inline int64_t entries_of(const Side& side, int64_t batch) {
  return side.batch_stride == 0 ? 1 : batch;
}

// A copy, at a multiple of 16 bytes and with no address yet, with its rows side by side or each
// along k.
inline Side copied(const Side& side, const Problem& problem, bool along_rows) {
  const int64_t line = 128 / size_of(problem.dtype);  // elements
  const int64_t along = along_rows ? side.rows : side.k;
  const int64_t pitch = (along + line - 1) / line * line;
  Side copy = side;
  copy.data = nullptr;
  copy.row_stride = along_rows ? 1 : pitch;
  copy.k_stride = along_rows ? pitch : 1;
  copy.batch_stride = side.batch_stride == 0 ? 0 : (along_rows ? side.k : side.rows) * pitch;
  copy.alignment = 16;
  return copy;
}

inline Side repacked(const Side& side, const Problem& problem) {
  return copied(side, problem, keeps_direction(side, problem.dtype) && is_mn_major(side));
}
inline Side transposed(const Side& side, const Problem& problem) {
  return copied(side, problem, /*along_rows=*/true);
}

inline int64_t copy_bytes(const Side& copy, const Problem& problem) {
  const bool along_rows = copy.row_stride == 1 && copy.k_stride != 1;
  return entries_of(copy, problem.batch) *
         (along_rows ? copy.k * copy.k_stride : copy.rows * copy.row_stride) *
         size_of(problem.dtype);
}

}  // namespace tiled
