// How rung async_mma runs a problem. Pure, as plan/plan.h.
#pragma once

#include "cuda/engine/async_mma/tiles.h"
#include "cuda/engine/async_mma/way.h"
#include "cuda/plan/copies.h"
#include "cuda/plan/swap_ab.h"

namespace tiled {

// This problem, or that of C's transpose.
inline Problem async_mma_problem(const Problem& problem, const AsyncMmaWay& way) {
  return way.swap_ab ? with_ab_swapped(problem) : problem;
}

// How an operand is copied so that 16 bytes of it can be read: it keeps its direction where
// elements have 16 bits, and is contiguous along k else.
inline CopyTo laid_out(const Side& side, DType dtype) {
  return size_of(dtype) == 2 ? repacked_to(side, dtype) : CopyTo::AlongK;
}

}  // namespace tiled
