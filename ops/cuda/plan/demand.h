// The work that a way asks of a chip, in numbers that its time is estimated from (estimate.h). A
// rung's plan() fills it in: no rung has a model of its own.
#pragma once

#include <cstdint>

#include "core/sum_tree.h"
#include "cuda/plan/sides.h"

namespace tiled {

struct Demand {
  int16_t variant = 0;   // the tile's place in the rung's variants()
  int16_t resident = 1;  // blocks of the product that one multiprocessor holds at once
  int16_t cluster_p = 1, cluster_q = 1;  // blocks that share loads of Q's rows, and of P's
  int16_t cluster_k = 1;  // blocks of a cluster that share K of a tile out, each of them a unit
  bool p_mn_major = false, q_mn_major = false;  // how the product reads P and Q
  bool splits = false;                          // segments of K are units of their own
  bool stream_k = false;                        // all blocks have equally much to do
  double ends = 1;    // times that a block comes to an end of what it has room for, in one unit
  double units = 0;   // tiles of C, of all segments of K that are split and of the batch
  double depth = 0;   // k of one unit, in whole turns of warps that take it in turn, once or twice
  double filled = 1;  // of the tile, the part that it multiplies
  double loaded_bytes = 0;      // by all units together, from L2
  double off_sector_bytes = 0;  // of these, in rows that begin at no multiple of 32 bytes
  double line_loads = 0;   // the most that one line of an operand is asked for, one after the other
  double again_bytes = 0;  // of operands, that blocks far from each other load both
  double store_lines = 0;  // of C, that instructions store to whose lanes have an element each
};

// A problem with groups as a batch of products of their average size: where groups end is known on
// the device alone.
Problem average_of(Problem problem);

// Whether the operand's rows, in its own layout, begin at no multiple of 32 bytes.
bool begins_off_sector(const Side& side, DType dtype);

// The lines of C that a warp's instructions store to where each lane has a single element: those of
// an instruction lie in so many rows, in each so many bytes from the first to the last.
double store_lines_of(const Problem& problem, int rows, int64_t bytes);

// Tiles of block_p x block_q elements that cover P x Q, each with all of K or, where segments are
// split, one of them. `read`: the operands as the product reads them.
Demand demand_of(const Problem& problem, const Sides& read, int64_t block_p, int64_t block_q,
                 int variant, int resident, bool splits = false, int cluster_p = 1,
                 int cluster_q = 1);

// The demand of a kernel that has A's rows as P and B's columns as Q.
inline Demand demand_of(const Problem& problem, int64_t block_m, int64_t block_n, int variant,
                        int resident, bool splits = false) {
  return demand_of(problem, sides_of(problem, /*swap_ab=*/false), block_m, block_n, variant,
                   resident, splits);
}

}  // namespace tiled
