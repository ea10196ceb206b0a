// The launches of the persistent rungs share these: the maps of operands, and the grid of work.
#pragma once

#include "cuda/parts/launch/hopper_arguments.h"
#include "cuda/parts/launch/tensor_map.h"
#include "cuda/plan/repack_layout.h"

namespace tiled {

// One operand's map, of boxes with its layout.
inline cudaError_t encode_side(CUtensorMap* map, const Side& side, int64_t entries,
                               CUtensorMapDataType type, int bytes, MapBox along_mn,
                               MapBox along_k) {
  return encode_tensor_map(map, type, bytes, mapped(side, entries),
                           is_mn_major(side) ? along_mn : along_k);
}

// For OperandTile: boxes of 128 bytes of k by its rows, or of an atom of rows by k, cut into as
// many parts as blocks share it.
inline cudaError_t encode_operand(CUtensorMap* map, const Side& side, int64_t entries,
                                  CUtensorMapDataType type, int bytes, int block_rows,
                                  int share_rows, int sharers) {
  const int block_k = 128 / bytes;
  return encode_side(map, side, entries, type, bytes,
                     {operand_atom(share_rows, bytes), block_k / sharers},
                     {block_k, block_rows / sharers});
}

// Everything of the arguments but the maps, C and the workspace.
inline HopperArguments grid_arguments(const Problem& problem, const ClusterPlan& plan,
                                      const Sides& sides, int block_p, int block_q,
                                      int64_t segments) {
  HopperArguments args{};
  const Side &p = sides.p, &q = sides.q;
  args.p = static_cast<int32_t>(p.rows), args.q = static_cast<int32_t>(q.rows);
  args.k = static_cast<int32_t>(problem.k), args.batch = static_cast<int32_t>(problem.batch);
  args.p_batch = p.batch_stride != 0, args.q_batch = q.batch_stride != 0;
  args.cluster_p = plan.cluster_p, args.cluster_q = plan.cluster_q;
  args.clusters_p = static_cast<int32_t>(blocks_over(p.rows, int64_t{block_p} * plan.cluster_p));
  args.clusters_q = static_cast<int32_t>(blocks_over(q.rows, int64_t{block_q} * plan.cluster_q));
  args.segments = static_cast<int32_t>(segments);
  args.by_tiles = Divisor::of(args.clusters_p * args.clusters_q);
  args.by_segments = Divisor::of(args.segments);
  args.by_panel = Divisor::of(plan.panel * args.clusters_q);
  args.by_height = Divisor::of(plan.panel);
  args.by_last = Divisor::of((args.clusters_p - 1) % plan.panel + 1);
  return args;
}

}  // namespace tiled
