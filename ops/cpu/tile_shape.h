// The size of the register tile for a product, or for a thread's share of one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/blocking.h"

namespace tiled::cpu {

// The tile of so many rows and vectors that takes the fewest loads for the product: each element of
// A is read once a strip, each vector of B once a row of tiles, and, from beyond L1, costs about as
// much as `b_loads` of A. Tiles and strips are of even size, so none is left over.
struct Shape {
  int64_t rows, vectors;
};
inline Shape choose_tile(const Kernels& kernels, int64_t most_rows, int64_t rows, int64_t vectors,
                         int64_t b_loads) {
  if (rows <= most_rows && vectors <= kernels.wide[rows]) return {rows, vectors};
  Shape best = {};
  int64_t least = INT64_MAX, tallest = most_rows;
  for (int64_t wide = 1; wide <= std::min<int64_t>(MAX_VECTORS, vectors); ++wide) {
    while (tallest > 0 && kernels.wide[tallest] < wide) --tallest;
    if (tallest == 0) break;
    const int64_t tiles = ceil_div(rows, tallest), strips = ceil_div(vectors, wide);
    const int64_t loads = strips * rows + tiles * vectors * b_loads;
    if (loads > least) continue;
    least = loads;
    best = {ceil_div(rows, tiles), ceil_div(vectors, strips)};
  }
  return best;
}

}  // namespace tiled::cpu
