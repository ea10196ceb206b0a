// How rung hopper runs a problem. Pure, as plan/plan.h.
#pragma once

#include "cuda/engine/hopper/tiles.h"
#include "cuda/plan/cluster_plan.h"
#include "cuda/plan/repack_layout.h"
#include "cuda/plan/rung.h"
#include "cuda/plan/tma.h"

namespace tiled {

struct HopperPlan : ClusterPlan {
  CopyTo copy_p, copy_q;  // the operand is copied to where TMA can read it
  bool split_k;           // among blocks; their sums meet in a second kernel
  bool stores_by_tma;     // C; else warps write it from slices
};

// The grid of units that a plan's clusters walk through.
struct Units {
  int64_t clusters_p, clusters_q, count;
};
inline Units units_of(const Problem& problem, const HopperPlan& plan) {
  const HopperTileInfo& tile = hopper_tile(plan.tile);
  const int64_t p = plan.swap_ab ? problem.n : problem.m;
  const int64_t q = plan.swap_ab ? problem.m : problem.n;
  Units units;
  units.clusters_p = blocks_over(p, int64_t{tile.block_p} * plan.cluster_p);
  units.clusters_q = blocks_over(q, int64_t{tile.block_q} * plan.cluster_q);
  if (is_grouped(problem) && problem.groups.shared != Shared::K) {
    // The most that there may be: each group, and the rows after them, may end with a part of a
    // tile.
    const bool of_p = problem.groups.shared == (plan.swap_ab ? Shared::N : Shared::M);
    int64_t& shared = of_p ? units.clusters_p : units.clusters_q;
    shared = saturating_sum(shared, problem.batch);
    units.count = saturating_product(units.clusters_p, units.clusters_q);
    return units;
  }
  const int64_t segments = plan.split_k ? chain_count(problem) : 1;
  units.count = saturating_product(saturating_product(units.clusters_p, units.clusters_q),
                                   problem.batch * segments);
  return units;
}

// Whether the product's kernel computes the epilogue: sums of split-K are finished by the
// kernel that adds them.
inline bool finishes(const Problem& problem, const HopperPlan& plan) {
  return !plan.split_k && !problem.epilogue.is_identity();
}

// Whether a tile's columns of Q have one scale in common, for a block of K: they lie in one block
// of 128 rows, unless a group begins between them.
inline bool has_one_q(const Problem& problem, bool swap_ab) {
  const Scaling q = swap_ab ? problem.scales.a.scaling : problem.scales.b.scaling;
  const Shared rows = swap_ab ? Shared::M : Shared::N;
  return q == Scaling::Tensorwise || (q == Scaling::Block128x128 && problem.groups.shared != rows);
}

// Whether TMA stores C, or what is kept beside it, of these strides and this alignment
// (Operand::alignment). It writes whole 16 bytes: of a row that ends inside of such a piece it
// would write the rest. A row begins at a multiple of them too, as a group in a row that groups
// share out may not.
inline bool stores_by_tma(const Problem& problem, const Sides& sides, int64_t p_stride,
                          int64_t q_stride, int32_t alignment) {
  if (p_stride != 1 && q_stride != 1) return false;
  const bool along_p = q_stride != 1;
  const Side& along = along_p ? sides.p : sides.q;
  const int64_t rows = (along_p ? sides.q : sides.p).rows;
  const int64_t pitch = along_p ? q_stride : p_stride;
  return alignment == 16 && along.rows * size_of(problem.epilogue.out_dtype) % 16 == 0 &&
         (rows <= 1 || pitch > 1) && !along.is_shared;
}

// plan.cpp's rung describes its plans by this (describe.cpp). In JSON:
//
//   hopper  {swap_ab, cluster_p, cluster_q, panel, split_k, repack_a, repack_b,
//           store: "tma" or "rows"}
Description describe_hopper(const Problem& problem, const DeviceInfo& device, const Plan& plan);

}  // namespace tiled
