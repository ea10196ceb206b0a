// The problem of C's transpose: B's transpose for A, and A's for B.
#pragma once

#include <utility>

#include "core/problem.h"

namespace tiled {

inline Problem with_ab_swapped(const Problem& problem) {
  const auto transpose = [](auto x) {
    std::swap(x.row_stride, x.col_stride);
    return x;
  };
  Problem other = problem;
  other.m = problem.n, other.n = problem.m;
  if (Shared& shared = other.groups.shared; shared == Shared::M)
    shared = Shared::N;
  else if (shared == Shared::N)
    shared = Shared::M;
  other.a = transpose(problem.b), other.b = transpose(problem.a);
  other.c = transpose(problem.c);
  other.epilogue = transposed(problem.epilogue);
  return other;
}

}  // namespace tiled
