// Sizes and places that follow from a problem and its HopperPlan; pure, for planner and launch.
#pragma once

#include "core/segments.h"
#include "cuda/parts/hand_over.h"
#include "cuda/parts/wrap_around.h"
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

// How the plan's clusters share out its tiles, where some of these are cut in time.
inline WrapAround wrap_around(const Problem& problem, const HopperPlan& plan) {
  return WrapAround::of(static_cast<uint32_t>(units_of(problem, plan).count),
                        static_cast<uint32_t>(plan.blocks / (plan.cluster_p * plan.cluster_q)),
                        static_cast<uint32_t>(steps_of(problem)));
}

// The workspace: repacked P, repacked Q, then tiles' totals, where registers have no room for them,
// or, where segments are shared out, the segments' sums. Tiles that are cut in time wait where
// totals would, before the words of their hand-over.
struct HopperLayout {
  Copies copies;
  Sides sides;      // as the kernel reads them
  SumsLayout sums;  // of segments that are shared out; else of one
  int64_t totals_at, totals_bytes;
  int64_t hand_over_groups;  // blocks that hand accumulators over
  int64_t words_at() const { return totals_at + totals_bytes; }
  int64_t words_bytes() const {
    return hand_over_groups == 0 ? 0 : hand_over_words_bytes(hand_over_groups);
  }
};

inline HopperLayout hopper_layout(const Problem& problem, const HopperPlan& plan, void* workspace) {
  HopperLayout l{Copies(problem, workspace), sides_of(problem, plan.exchanged), {}, 0, 0, 0};
  if (plan.repack_p) l.sides.p = l.copies.add(l.sides.p, repacked(l.sides.p, problem));
  if (plan.repack_q) l.sides.q = l.copies.add(l.sides.q, repacked(l.sides.q, problem));
  const HopperTileInfo& tile = hopper_tile(plan.tile);
  const int64_t segments = segment_count(problem.k);
  l.sums = sums_layout(problem, plan.share_segments ? segments : 1);
  l.totals_at = l.copies.bytes();
  if (plan.share_segments)
    l.totals_bytes = l.sums.bytes(problem.batch);
  else if (totals_in_workspace(problem, plan) || plan.wraps_around)
    l.totals_bytes = int64_t{plan.blocks} * tile.consumers * tile.group_p * tile.group_q * 4;
  if (plan.wraps_around) l.hand_over_groups = plan.blocks;
  return l;
}

}  // namespace tiled
