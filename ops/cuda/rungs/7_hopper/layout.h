// Sizes and places that follow from a problem and its HopperPlan; pure, for planner and launch.
#pragma once

#include "core/segments.h"
#include "cuda/plan/copies.h"
#include "cuda/plan/sums.h"
#include "cuda/rungs/7_hopper/plan.h"

namespace tiled {

// P and Q as the kernel reads them; what is copied has no address yet.
inline Sides sides_read(const Problem& problem, const HopperPlan& plan) {
  Sides sides = sides_of(problem, plan.exchanged);
  if (plan.repack_p) sides.p = repacked(sides.p, problem);
  if (plan.repack_q) sides.q = repacked(sides.q, problem);
  return sides;
}

// Whether the product's kernel computes the epilogue: the sums of segments that are shared out are
// finished by the kernel that adds them.
inline bool finishes(const Problem& problem, const HopperPlan& plan) {
  return !plan.share_segments && !problem.epilogue.is_identity();
}

// How a matrix of p by q elements leaves, of these strides and this alignment (Operand::alignment).
inline StorePath store_path(DType dtype, int64_t p, int64_t q, int64_t p_stride, int64_t q_stride,
                            int32_t alignment) {
  if (size_of(dtype) != 2 || (p_stride != 1 && q_stride != 1)) return StorePath::Scatter;
  const bool along_p = q_stride != 1;
  const int64_t rows = along_p ? q : p, length = along_p ? p : q;
  const int64_t pitch = along_p ? q_stride : p_stride;
  // TMA writes whole 16 bytes: of a row that ends inside of such a piece it would write the rest.
  const bool by_tma = alignment == 16 && length % 8 == 0 && (rows <= 1 || pitch > 1);
  return by_tma ? StorePath::Tma : StorePath::Rows;
}

// The workspace: repacked P, repacked Q, then tiles' totals, where registers have no room for them,
// or, where segments are shared out, the segments' sums.
struct HopperLayout {
  Copies copies;
  Sides sides;      // as the kernel reads them
  SumsLayout sums;  // of segments that are shared out; else of one
  int64_t totals_at, totals_bytes;
};

inline HopperLayout hopper_layout(const Problem& problem, const HopperPlan& plan, void* workspace) {
  HopperLayout l{Copies(problem, workspace), sides_of(problem, plan.exchanged), {}, 0, 0};
  if (plan.repack_p) l.sides.p = l.copies.add(l.sides.p, repacked(l.sides.p, problem));
  if (plan.repack_q) l.sides.q = l.copies.add(l.sides.q, repacked(l.sides.q, problem));
  const HopperTileInfo& tile = hopper_tile(plan.tile);
  const int64_t segments = segment_count(problem.k);
  l.sums = sums_layout(problem, plan.share_segments ? segments : 1);
  l.totals_at = l.copies.bytes();
  if (plan.share_segments)
    l.totals_bytes = l.sums.bytes(problem.batch);
  else if (totals_in_workspace(problem, plan))
    l.totals_bytes = int64_t{plan.blocks} * tile.consumers * tile.group_p * tile.group_q * 4;
  return l;
}

}  // namespace tiled
