// Where tiles are: their order, and where those at C's edge are read. They run down groups of GROUP
// rows of tiles, so that the blocks in flight together cover a nearly square part of C and share
// what they read through L2.
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

// Where a tile that begins at row (or column) `first` of `size` is read: at the edge so much before
// it that it is in the matrix as a whole, for steps of such tiles take less. By a multiple of the
// VECTOR elements that are copied and stored together. What it has of its neighbour's is not
// stored.
template <int BLOCK, int VECTOR>
__device__ __forceinline__ int64_t read_from(int64_t first, int64_t size) {
  const int64_t back = first + BLOCK - size;
  return back > 0 && back <= first && back % VECTOR == 0 ? first - back : first;
}

}  // namespace tiled
