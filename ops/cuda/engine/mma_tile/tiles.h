// The tiles of fp64. Plain constants, for the planner and the kernels.
#pragma once

#include "core/segments.h"
#include "cuda/plan/tile_name.h"

namespace tiled {

// Warps of WARP_ROWS x WARP_COLUMNS of C, fed by steps of 16 of k, of which STAGE_COUNT are in
// shared memory.
template <int M, int N, int WARP_ROWS, int WARP_COLUMNS, int STAGE_COUNT, int BLOCKS>
struct Fp64Tile {
  static constexpr int BLOCK_M = M;
  static constexpr int BLOCK_N = N;
  static constexpr int BLOCK_K = 16;
  static constexpr int WARP_M = WARP_ROWS;
  static constexpr int WARP_N = WARP_COLUMNS;
  static constexpr int THREAD_M = WARP_M / 8;  // a lane has 2 rows of every 16
  static constexpr int THREAD_N = WARP_N / 4;  // and 2 columns of every 8
  static constexpr int THREADS = (M / WARP_M) * (N / WARP_N) * 32;
  static constexpr int STAGES = STAGE_COUNT;
  static constexpr int BLOCKS_PER_SM = BLOCKS;  // asked of the compiler, which fits the registers
  // Elements a row of shared memory, of k or of m or n. With four of them for padding, 4 of k of 4
  // rows fall into 32 different banks, whichever layout the tile has.
  static constexpr int PADDING = 4;
  // Bytes of an operand's tile that is contiguous along k; along m or n it has fewer.
  static constexpr int TILE_BYTES(int rows) { return rows * (BLOCK_K + PADDING) * 8; }
  static constexpr int STAGE_BYTES = TILE_BYTES(M) + TILE_BYTES(N);
  static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES;

  static_assert(SEGMENT_K % BLOCK_K == 0, "a segment is a whole number of steps");
  static_assert(M % 16 == 0 && N % 16 == 0 && WARP_M % 16 == 0 && WARP_N % 8 == 0,
                "warps are made of tiles of 16 x 8, and rows are padded to 4 modulo 16 elements");
  static_assert(THREADS * BLOCKS * THREAD_M * THREAD_N * 2 <= 32768,
                "the accumulators leave half of the 65,536 registers to everything else");
  static_assert(STAGES >= 2 && SHARED_BYTES <= 227 * 1024 &&
                    BLOCKS * (SHARED_BYTES + 1024) <= 228 * 1024,
                "the blocks fit a multiprocessor of compute capability 9.0");
};

struct Fp64Tile128x128 : Fp64Tile<128, 128, 64, 32, 4, 1> {};
struct Fp64Tile128x64 : Fp64Tile<128, 64, 32, 32, 7, 1> {};
// Two blocks a multiprocessor: one begins and ends beside the other's products.
struct Fp64Tile64x64 : Fp64Tile<64, 64, 32, 32, 4, 2> {};
// For one block a multiprocessor, and few rows: many steps on their way.
struct Fp64Tile32x64 : Fp64Tile<32, 64, 16, 16, 12, 1> {};

// In this order the planner counts them.
using Fp64Tiles = TileList<Fp64Tile128x128, Fp64Tile128x64, Fp64Tile64x64, Fp64Tile32x64>;
// The one of products with groups.
using Fp64TileOfGroups = Fp64Tile64x64;
constexpr int FP64_TILE_OF_GROUPS = 2;
static_assert(tile_name_of(Fp64Tiles(), FP64_TILE_OF_GROUPS) == tile_type_name<Fp64TileOfGroups>());
// The first of them also have stream-K (plan/stream_k.h).
using Fp64StreamKTiles = TileList<Fp64Tile128x128, Fp64Tile128x64, Fp64Tile64x64>;

}  // namespace tiled
