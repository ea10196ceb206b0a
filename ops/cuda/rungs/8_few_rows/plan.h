// How rung few_rows runs a problem. Pure, as plan/plan.h.
#pragma once

#include "core/segments.h"
#include "cuda/plan/copies.h"
#include "cuda/rungs/8_few_rows/tiles.h"

namespace tiled {

struct FewRowsPlan {
  int8_t tile;              // of FewRowsTiles
  bool exchanged;           // P is B's transpose and Q is A; else P is A and Q B's transpose
  bool repack_p, repack_q;  // the operand is copied to where TMA can read it, Q along K
  int32_t blocks;           // of the grid
};

// Tiles of C, of all entries of the batch.
inline int64_t tiles_of(const Problem& problem, const FewRowsPlan& plan) {
  const FewRowsTileInfo& tile = few_rows_tile(plan.tile);
  const int64_t p = plan.exchanged ? problem.n : problem.m;
  const int64_t q = plan.exchanged ? problem.m : problem.n;
  return saturating_product(
      saturating_product(blocks_over(p, tile.block_p), blocks_over(q, tile.block_q)),
      problem.batch);
}

// P and Q as the kernel reads them, and the copies that takes.
struct FewRowsLayout {
  Copies copies;
  Sides sides;
};

inline FewRowsLayout few_rows_layout(const Problem& problem, const FewRowsPlan& plan,
                                     void* workspace) {
  FewRowsLayout l{Copies(problem, workspace), sides_of(problem, plan.exchanged)};
  if (plan.repack_p) l.sides.p = l.copies.add(l.sides.p, repacked(l.sides.p, problem));
  if (plan.repack_q)
    l.sides.q = l.copies.add(l.sides.q, copied(l.sides.q, problem, /*along_rows=*/false));
  return l;
}

}  // namespace tiled
