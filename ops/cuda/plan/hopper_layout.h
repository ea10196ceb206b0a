// Sizes and places that follow from a problem and its HopperPlan; pure, for planner and launch.
#pragma once

#include "core/segments.h"
#include "cuda/plan/hopper_plan.h"
#include "cuda/plan/repack_layout.h"

namespace tiled {

constexpr int64_t WORKSPACE_ALIGNMENT = 256;  // bytes

constexpr int64_t workspace_aligned(int64_t bytes) {
  return (bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
}

// The workspace: repacked P, repacked Q, then the totals of the blocks' tiles or, where segments
// are shared out, the segments' sums.
struct HopperLayout {
  Sides sides;
  int64_t repacked_p, repacked_q;  // bytes
  int64_t segments;                // that are shared out; 1 if none are
  // One segment's sums, [batch][rows][pitch] of fp32 in the order of C's elements.
  bool sums_along_p;
  int64_t sums_pitch, sums_entry;  // elements
  int64_t totals;                  // bytes
};

inline HopperLayout hopper_layout(const Problem& problem, const HopperPlan& plan) {
  const HopperTileInfo& tile = hopper_tile(plan.tile);
  HopperLayout l{};
  l.sides = sides_of(problem, plan.exchanged);
  const Side &p = l.sides.p, &q = l.sides.q;
  if (plan.repack_p) l.repacked_p = workspace_aligned(repacked_bytes(p, problem));
  if (plan.repack_q) l.repacked_q = workspace_aligned(repacked_bytes(q, problem));
  const int64_t segments = segment_count(problem.k);
  l.segments = plan.share_segments ? segments : 1;
  if (plan.share_segments) {
    l.sums_along_p = l.sides.c_p == 1 && l.sides.c_q != 1;
    l.sums_pitch = ((l.sums_along_p ? p.rows : q.rows) + 3) / 4 * 4;
    l.sums_entry = (l.sums_along_p ? q.rows : p.rows) * l.sums_pitch;
    l.totals = l.sums_entry * problem.batch * segments * 4;
  } else if (segments > 1) {
    l.totals = int64_t{plan.blocks} * tile.consumers * tile.group_p * tile.group_q * 4;
  }
  return l;
}

inline int64_t hopper_workspace(const Problem& problem, const HopperPlan& plan) {
  const HopperLayout layout = hopper_layout(problem, plan);
  return layout.repacked_p + layout.repacked_q + layout.totals;
}

}  // namespace tiled
