// How rung async_mma runs a problem. Pure, as plan/plan.h.
#pragma once

#include "cuda/plan/copies.h"
#include "cuda/plan/turned.h"
#include "cuda/rungs/10_async_mma/tiles.h"
#include "cuda/rungs/10_async_mma/way.h"

namespace tiled {

inline bool is_byte(const Problem& problem) { return size_of(problem.dtype) == 1; }

// This problem, or that of C's transpose.
inline Problem as_turned(const Problem& problem, const AsyncMmaWay& way) {
  return way.exchanged ? turned(problem) : problem;
}

// A copy of an operand, of which 16 bytes can be read: it keeps its direction where elements have
// 16 bits, and lies along k else.
inline Side laid_out(const Side& side, const Problem& problem) {
  return size_of(problem.dtype) == 2 ? repacked(side, problem)
                                     : copied(side, problem, /*along_rows=*/false);
}

// The problem that the kernel computes, and the copies that takes; behind these, in the workspace,
// the totals of a deep K.
struct AsyncMmaLayout {
  Copies copies;
  Problem computed;
};

inline AsyncMmaLayout async_mma_layout(const Problem& problem, const AsyncMmaWay& way,
                                       void* workspace) {
  AsyncMmaLayout l{Copies(problem, workspace), as_turned(problem, way)};
  if (way.copy_a) {
    const Side from = side_a(l.computed), a = l.copies.add(from, laid_out(from, problem));
    l.computed.a = {a.data, a.row_stride, a.k_stride, a.batch_stride, a.alignment};
  }
  if (way.copy_b) {
    const Side from = side_b(l.computed), b = l.copies.add(from, laid_out(from, problem));
    l.computed.b = {b.data, b.k_stride, b.row_stride, b.batch_stride, b.alignment};
  }
  return l;
}

}  // namespace tiled
