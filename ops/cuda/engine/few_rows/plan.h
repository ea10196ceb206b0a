// How rung few_rows runs a problem. Pure, as plan/plan.h.
#pragma once

#include <algorithm>

#include "core/segments.h"
#include "cuda/engine/few_rows/strips.h"
#include "cuda/engine/few_rows/tiles.h"
#include "cuda/plan/copies.h"
#include "cuda/plan/tree_pass.h"

namespace tiled {

struct FewRowsPlan {
  int8_t tile;              // of FewRowsTiles
  bool swap_ab;             // P is B's transpose and Q is A; else P is A and Q B's transpose
  CopyTo copy_p, copy_q;    // the operand is copied to where TMA can read it, Q along K
  int8_t strip;             // rows of P
  int8_t height;            // strips of the highest tile
  int32_t sharers, rounds;  // of an entry's P: blocks that share it out, and tiles of each
  int32_t blocks;           // of the grid
  bool split_k;             // among blocks; their sums meet in a second kernel
};

// How an entry's P of so many rows is shared out.
inline FewRowsStrips few_rows_strips(const FewRowsPlan& plan, int64_t rows) {
  const int64_t count = std::max<int64_t>(1, blocks_over(rows, plan.strip));
  return FewRowsStrips::of(static_cast<int32_t>(count), plan.sharers, plan.rounds);
}

// Tiles along Q.
inline int64_t columns_of(const Problem& problem, const FewRowsPlan& plan) {
  return blocks_over(plan.swap_ab ? problem.m : problem.n, few_rows_tile(plan.tile).block_q);
}

// The segments of split-K, or leaves.
inline int64_t segments_of(const Problem& problem, const FewRowsPlan& plan) {
  return plan.split_k ? chain_count(problem) : 1;
}

// The stages of a tile, of so much of K: of all of it, or in split-K of a segment, of which the
// last is as long as the others, since there is only zero beyond K. A leaf begins with a stage, and
// of leaves that are shared out each has its own number.
inline int64_t stages_of(const Problem& problem, const FewRowsPlan& plan, int64_t stage_k) {
  if (problem.leaf == 0)
    return blocks_over(plan.split_k ? segment_size(problem.k) : problem.k, stage_k);
  int64_t stages = 0;
  for (const TreePart& leaf : leaves_of(problem)) stages += blocks_over(leaf.size, stage_k);
  return stages;
}

// The tiles of C, of all entries of the batch; and in split-K those of all segments.
inline int64_t tiles_of(const Problem& problem, const FewRowsPlan& plan) {
  const int64_t along_p = saturating_product(plan.sharers, plan.rounds);
  return saturating_product(saturating_product(along_p, columns_of(problem, plan)), problem.batch);
}
inline int64_t few_rows_units(const Problem& problem, const FewRowsPlan& plan) {
  return saturating_product(tiles_of(problem, plan), segments_of(problem, plan));
}

}  // namespace tiled
