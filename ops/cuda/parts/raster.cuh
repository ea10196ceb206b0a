// The order of register_tile's tiles. They run down groups of GROUP rows of tiles, so that the
// blocks in flight together cover a nearly square part of C and share what they read through L2.
#pragma once

#include <cstdint>

namespace tiled {

template <int64_t GROUP>
__device__ __forceinline__ void tile_of_block(int64_t block, int64_t tiles_m, int64_t tiles_n,
                                              int64_t& tile_m, int64_t& tile_n) {
  const int64_t first = block / (GROUP * tiles_n) * GROUP;
  const int64_t rows = tiles_m - first < GROUP ? tiles_m - first : GROUP;
  const int64_t inside = block % (GROUP * tiles_n);
  tile_m = first + inside % rows;
  tile_n = inside / rows;
}

}  // namespace tiled
