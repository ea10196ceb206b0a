// How rung async_mma runs a problem. Pure, as plan/plan.h.
#pragma once

#include <utility>

#include "cuda/plan/sides.h"
#include "cuda/rungs/10_async_mma/tiles.h"
#include "cuda/rungs/10_async_mma/way.h"

namespace tiled {

// The problem that the kernel computes: this one, or that of C's transpose.
inline Problem as_computed(const Problem& problem, const AsyncMmaWay& way) {
  if (!way.exchanged) return problem;
  const auto transpose = [](auto x) {
    std::swap(x.row_stride, x.col_stride);
    return x;
  };
  Problem turned = problem;
  turned.m = problem.n, turned.n = problem.m;
  turned.a = transpose(problem.b), turned.b = transpose(problem.a);
  turned.c = transpose(problem.c);
  turned.epilogue = transposed(problem.epilogue);
  return turned;
}

}  // namespace tiled
