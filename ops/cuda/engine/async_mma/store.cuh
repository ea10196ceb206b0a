// How async_mma stores: a block's sums to C, rounded once. Where they become 16-bit elements that
// are side by side in C's rows or columns they go through shared memory, in slices of rows of 64
// elements or less, from where neighbouring threads write 16 bytes each.
//
//     rows of C along n:  [BLOCK_N / 64][BLOCK_M][64]      along m:  [BLOCK_M / 64][BLOCK_N][64]
#pragma once

#include "cuda/parts/arithmetic/thread_tile.cuh"
#include "cuda/parts/epilogue/write_rows.cuh"
#include "cuda/ptx/opaque.cuh"

namespace tiled {

// ROWS x LENGTH elements in slices of SLICE of a row.
template <int ROWS, int LENGTH>
struct SwizzledSlices {
  static constexpr int SLICE = LENGTH < 64 ? LENGTH : 64;
  static constexpr int BYTES = ROWS * SLICE * 2;

  static __device__ __forceinline__ uint32_t at(int row, int place) {
    return place / SLICE * BYTES + ptx::swizzled<SLICE * 2>(row * SLICE * 2 + place % SLICE * 2);
  }
};

// Where a block's tile is in C.
struct TilePlace {
  int64_t entry, row, column;
  int rows, columns;  // that exist
};

// The slices, filled, to C: `rows` rows of `length` elements exist from `c` on.
template <typename Tile, int ROWS, int LENGTH>
__device__ __forceinline__ void write_slices(uint32_t shared, uint16_t* c, int64_t pitch, int rows,
                                             int length, bool aligned) {
  using S = SwizzledSlices<ROWS, LENGTH>;
  if (!aligned) {
    for (int first = 0; first < LENGTH; first += S::SLICE)
      write_rows<ROWS, S::SLICE, Tile::THREADS>(shared + first / S::SLICE * S::BYTES, c + first,
                                                pitch, 1, rows, length - first, threadIdx.x);
    return;
  }
  constexpr int PER_ROW = LENGTH / 8;
#pragma unroll 4
  for (int i = threadIdx.x; i < ROWS * PER_ROW; i += Tile::THREADS) {
    const int row = i / PER_ROW, place = i % PER_ROW * 8;
    if (row < rows && place < length)
      *reinterpret_cast<uint4*>(c + row * pitch + place) =
          ptx::load_shared_v4(shared + S::at(row, place));
  }
}

// A warp's sums, of its rows and columns of the tile from (warp_m, warp_n) on.
template <typename Tile, typename T, int TILES_M, int TILES_N>
__device__ __forceinline__ void store_through_slices(const Problem& problem, const TilePlace& place,
                                                     const float (&sums)[TILES_M][TILES_N][4],
                                                     uint32_t shared, int warp_m, int warp_n) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const bool along_m = problem.c.col_stride != 1;
#pragma unroll
  for (int i = 0; i < TILES_M; ++i)
#pragma unroll
    for (int j = 0; j < TILES_N; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float low = sums[i][j][2 * half], high = sums[i][j][2 * half + 1];
        const int row = warp_m + 16 * i + 8 * half + g, column = warp_n + 8 * j + 2 * t;
        if (along_m) {
          // Two rows' lanes exchange, so that each has two neighbours of one column.
          const bool odd = g % 2 == 1;
          const float other = __shfl_xor_sync(~0u, odd ? low : high, 4);
          ptx::store_shared_u32(
              shared + SwizzledSlices<Tile::BLOCK_N, Tile::BLOCK_M>::at(column + odd, row - odd),
              odd ? pack(T(), other, high) : pack(T(), low, other));
        } else {
          ptx::store_shared_u32(
              shared + SwizzledSlices<Tile::BLOCK_M, Tile::BLOCK_N>::at(row, column),
              pack(T(), low, high));
        }
      }
  __syncthreads();
  uint16_t* const c = static_cast<uint16_t*>(problem.c.data) +
                      place.entry * problem.c.batch_stride + place.row * problem.c.row_stride +
                      place.column * problem.c.col_stride;
  const auto aligned = [&](int length) { return problem.c.alignment == 16 && length % 8 == 0; };
  if (along_m)
    write_slices<Tile, Tile::BLOCK_N, Tile::BLOCK_M>(shared, c, problem.c.col_stride, place.columns,
                                                     place.rows, aligned(place.rows));
  else
    write_slices<Tile, Tile::BLOCK_M, Tile::BLOCK_N>(shared, c, problem.c.row_stride, place.rows,
                                                     place.columns, aligned(place.columns));
  __syncthreads();  // before the next entry's operands come to the same place
}

// The sums go through the epilogue where they are, a pair of columns at a time.
template <typename T, int TILES_M, int TILES_N>
__device__ __forceinline__ void finish_tile(const Problem& problem, const TilePlace& place,
                                            Accumulator<T> (&sums)[TILES_M][TILES_N][4], int warp_m,
                                            int warp_n) {
  const int row = warp_m + threadIdx.x % 32 / 4, column = warp_n + threadIdx.x % 4 * 2;
  auto& all = in_a_row(sums);
  for_each_in_turn<4 * TILES_N>(all, [&](int i) {
    Accumulator<T> of_row[4 * TILES_N];  // of tiles, the one that is due first
#pragma unroll
    for (int v = 0; v < 4 * TILES_N; ++v) of_row[v] = all[v];
    for_each_in_turn<2>(of_row, [&](int pair) {
      const int at = row + 16 * i + pair % 2 * 8;
      Accumulator<T> two[2] = {of_row[0], of_row[1]};
      if (at < place.rows)
        finish_vector<T>(problem.epilogue, two, place.entry, place.row + at,
                         place.column + column + pair / 2 * 8, problem.n);
      of_row[0] = two[0], of_row[1] = two[1];
    });
#pragma unroll
    for (int v = 0; v < 4 * TILES_N; ++v) all[v] = of_row[v];
  });
}

template <typename Tile, typename T, int TILES_M, int TILES_N>
__device__ __forceinline__ void store_tile(const Problem& problem, const TilePlace& place,
                                           Accumulator<T> (&sums)[TILES_M][TILES_N][4],
                                           uint32_t shared, int warp_m, int warp_n) {
  // Addresses are computed now: kept from before the steps, they would take registers there.
  ptx::opaque(shared);
  ptx::opaque(warp_m, warp_n);
  if (!leaves_sums(problem.epilogue)) finish_tile<T>(problem, place, sums, warp_m, warp_n);
  if constexpr (sizeof(T) == 2) {
    const bool side_by_side = problem.c.col_stride == 1 || problem.c.row_stride == 1;
    if (side_by_side && !stores_accumulator(problem)) {
      store_through_slices<Tile, T>(problem, place, sums, shared, warp_m, warp_n);
      return;
    }
  }
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < TILES_M; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_m + 16 * i + 8 * half + g;
      if (row >= place.rows) continue;
      const int64_t c_row =
          place.entry * problem.c.batch_stride + (place.row + row) * problem.c.row_stride;
#pragma unroll
      for (int j = 0; j < TILES_N; ++j)
        store_vector<T, 2>(problem, c_row, place.column + warp_n + 8 * j + 2 * t,
                           &sums[i][j][2 * half], stores_accumulator(problem));
    }
}

}  // namespace tiled
