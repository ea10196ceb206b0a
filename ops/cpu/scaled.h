// Scaled products (core/scales.h) of fp8 and of int8.
//
//     for a region of C, a thread at a time
//       for each block of K, 128 at a time
//         widen a[rows][block] to fp32                    stays in L2
//         for cols of the region, a strip of tiles at a time
//           widen b[block][strip] to fp32                 stays in L1
//           for rows of the region, a tile at a time
//             micro-kernel of fp32: the block's sums
//             promotion: scaled, or as they are, they are added to the totals
//     then the scales that hold for all of K, and the epilogue
//
// The sums of int8 are one product of whole sums, in memory, and what comes behind them.
#pragma once

#include "cpu/blocked.h"

namespace tiled::cpu {

// K = 0 gives totals of +0. Throws std::bad_alloc where there is no memory to work in.
void mm_scaled(const Problem& problem, const ParallelFor& parallel);

// For tests: at a given level. Levels with fused multiply-adds have equal bits.
void mm_scaled(const Problem& problem, const ParallelFor& parallel, const Level& level);

}  // namespace tiled::cpu
