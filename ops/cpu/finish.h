// Finished sums to C where the epilogue (core/epilogue.h) is not the identity: the one way out of
// every kernel of the CPU.
#pragma once

#include "cpu/blocking.h"

namespace tiled::cpu {

constexpr int64_t FINISH_ROW_BYTES = MAX_VECTORS * 64;  // of sums, the most of a tile's row

// Rows and columns of C in entry `entry`, at most MAX_ROWS of FINISH_ROW_BYTES. `sums`, rows
// `sums_row` accumulators apart, are overwritten; `c` is where the first of them goes.
void finish(const Epilogue& epilogue, const ChainTable& chains, char* sums, int64_t sums_row,
            int64_t entry, Range rows, Range cols, char* c, const Strides& c_strides);

}  // namespace tiled::cpu
