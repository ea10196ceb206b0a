// The named tiles of rung fp16x3. Plain constants, for the planner and the kernel.
#pragma once

#include <cstdint>

#include "cuda/plan/shared_limits.h"
#include "cuda/plan/tile_name.h"

namespace tiled {

// A warp's place for 16 x 32 elements of a finished tile.
constexpr int FP16X3_STORE_BYTES = 16 * 32 * 4;

// P x Q elements of C for a tile; a consumer warpgroup takes 64 rows of it, in three sets of
// accumulators: main products, cross products, and the sum of both. A stage holds 64 of K of two
// planes of both operands.
template <int P, int Q, int STAGES_, int BLOCKS>
struct Fp16x3Tile {
  static constexpr int BLOCK_P = P;
  static constexpr int BLOCK_Q = Q;
  static constexpr int BLOCK_K = 64;
  static constexpr int READERS = P / 64;  // warpgroups that read a stage, 64 rows each
  static constexpr int CONSUMERS = READERS;
  static constexpr int EXCHANGE_BYTES = 0;  // of shared memory, from consumer to consumer
  static constexpr int THREADS = 128 * (CONSUMERS + 1);
  static constexpr int BLOCKS_PER_SM = BLOCKS;
  static constexpr int STAGES = STAGES_;
  static constexpr int STAGE_BYTES = 2 * (P + Q) * 128;
  static constexpr int STAGING_BYTES = 4 * CONSUMERS * FP16X3_STORE_BYTES;
  static constexpr int BARRIER_BYTES = (2 * STAGES + 2) * 8 + 8;  // and the cluster's number
  static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES + STAGING_BYTES + BARRIER_BYTES;
  static constexpr int PRODUCER_REGISTERS = BLOCKS == 2 ? 24 : 40;
  static constexpr int CONSUMER_REGISTERS = BLOCKS == 2 ? 224 : 232;

  static_assert(P % 64 == 0 && READERS <= 2, "a wgmma has 64 rows; registers for two consumers");
  static_assert(3 * Q / 2 <= 192, "three sets of accumulators that leave registers to spare");
  static_assert(SHARED_BYTES * BLOCKS <= 227 * 1024, "shared memory of a multiprocessor");
};

// The fewest bytes for a product, two consumers in turn; and for small problems more tiles, two
// blocks a multiprocessor.
struct X3Tile128x128 : Fp16x3Tile<128, 128, 3, 1> {};
struct X3Tile64x64 : Fp16x3Tile<64, 64, 3, 2> {};

// For a narrow or small C, whose P is cut in registers on its way (rungs/9_fp16x3/direct.cu): two
// consumers take the stages of a tile in turn, and exchange halves of their terms. The narrower
// tile fills twice as many multiprocessors.
template <int Q, int STAGES_>
struct Fp16x3DirectTile : Fp16x3Tile<64, Q, STAGES_, 1> {
  using Base = Fp16x3Tile<64, Q, STAGES_, 1>;
  static constexpr int CONSUMERS = 2;
  static constexpr int THREADS = 128 * (CONSUMERS + 1);
  static constexpr int EXCHANGE_BYTES = CONSUMERS * 64 * Q / 2 * 4;
  static constexpr int STAGING_BYTES = 4 * CONSUMERS * FP16X3_STORE_BYTES;
  static constexpr int SHARED_BYTES = STAGES_ * Base::STAGE_BYTES + EXCHANGE_BYTES + STAGING_BYTES +
                                      Base::BARRIER_BYTES + 4 * CONSUMERS * 8;
  static_assert(SHARED_BYTES <= 227 * 1024);
};
struct X3Direct64x64 : Fp16x3DirectTile<64, 6> {};
struct X3Direct64x32 : Fp16x3DirectTile<32, 8> {};

using Fp16x3PlaneTiles = TileList<X3Tile128x128, X3Tile64x64>;
using Fp16x3DirectTiles = TileList<X3Direct64x64, X3Direct64x32>;
using Fp16x3Tiles = TileList<X3Tile128x128, X3Tile64x64, X3Direct64x64, X3Direct64x32>;
constexpr int FP16X3_TILE_COUNT = Fp16x3Tiles::COUNT;
constexpr bool is_direct(int tile) { return tile >= Fp16x3PlaneTiles::COUNT; }

// Of async.cu, from compute capability 8.0 on: P and Q of the tile, and of a warp. A step is 64 of
// K of two planes of both operands, all of it in fresh accumulators. C leaves through the stages.
template <int P, int Q, int WARP_ROWS, int WARP_COLUMNS, int STAGE_COUNT, int BLOCKS>
struct Fp16x3AsyncTile {
  static constexpr int BLOCK_P = P;
  static constexpr int BLOCK_Q = Q;
  static constexpr int STEP_BYTES = 128;  // of a plane's row
  static constexpr int BLOCK_K = STEP_BYTES / 2;
  static constexpr int WARP_P = WARP_ROWS;
  static constexpr int WARP_Q = WARP_COLUMNS;
  static constexpr int WARPS_Q = Q / WARP_COLUMNS;
  static constexpr int THREADS = P / WARP_ROWS * WARPS_Q * 32;
  static constexpr int STAGES = STAGE_COUNT;
  static constexpr int BLOCKS_PER_SM = BLOCKS;
  static constexpr int RASTER_ROWS = 2048;  // of C, that blocks go down before the next column
  static constexpr int STAGE_BYTES = 2 * (P + Q) * STEP_BYTES;
  static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES;

  static_assert(WARP_P % 16 == 0 && WARP_Q % 32 == 0 && P % WARP_P == 0 && Q % WARP_Q == 0,
                "warps are made of tiles of 16 x 16, and store 32 columns at once");
  static_assert(WARP_P * WARP_Q <= 32 * 64, "sums and parts of a step fit a thread's registers");
  static_assert(STAGES >= 2, "a stage is filled while another is read");
  static_assert(SHARED_BYTES >= THREADS / 32 * FP16X3_STORE_BYTES, "room to store from");
  static_assert(SHARED_BYTES <= (P * Q > 128 * 64 ? SHARED_OF_8_0 : SHARED_OF_8_6),
                "the largest is for compute capabilities 8.0 and 9.0, the others for 8.6 too");
};
struct X3Async128x128 : Fp16x3AsyncTile<128, 128, 32, 64, 2, 1> {};
struct X3Async128x64 : Fp16x3AsyncTile<128, 64, 32, 32, 2, 1> {};
struct X3Async64x64 : Fp16x3AsyncTile<64, 64, 32, 32, 2, 2> {};
using Fp16x3AsyncTiles = TileList<X3Async128x128, X3Async128x64, X3Async64x64>;

struct Fp16x3TileInfo {
  int32_t block_p, block_q;  // elements
  int32_t threads, shared_bytes, blocks_per_sm;
};

template <typename... Tiles>
constexpr Fp16x3TileInfo fp16x3_tile_of(TileList<Tiles...>, int index) {
  const Fp16x3TileInfo tiles[] = {{Tiles::BLOCK_P, Tiles::BLOCK_Q, Tiles::THREADS,
                                   Tiles::SHARED_BYTES, Tiles::BLOCKS_PER_SM}...};
  return tiles[index];
}
constexpr Fp16x3TileInfo fp16x3_tile(int index) { return fp16x3_tile_of(Fp16x3Tiles(), index); }
constexpr std::string_view fp16x3_tile_name(int index) {
  return tile_name_of(Fp16x3Tiles(), index);
}
constexpr Fp16x3TileInfo fp16x3_async_tile(int index) {
  return fp16x3_tile_of(Fp16x3AsyncTiles(), index);
}
template <typename... Tiles>
constexpr int fp16x3_warp_q_of(TileList<Tiles...>, int index) {
  const int columns[] = {Tiles::WARP_Q...};
  return columns[index];
}
constexpr int fp16x3_async_warp_q(int index) { return fp16x3_warp_q_of(Fp16x3AsyncTiles(), index); }
constexpr std::string_view fp16x3_async_tile_name(int index) {
  return tile_name_of(Fp16x3AsyncTiles(), index);
}

// The one of few_rows.cu, whose Q has FEW_ROWS rows at most. Its threads and shared memory depend
// on the problem: these are the most.
constexpr int FEW_ROWS = 32;
constexpr Fp16x3TileInfo FEW_ROWS_TILE = {32, FEW_ROWS, 512, 227 * 1024, 1};
constexpr int FEW_ROWS_CHUNK = 64;  // of K, one term of an element
constexpr int FEW_ROWS_PITCH = 36;  // floats, of terms from one row of X to the next
constexpr int FEW_ROWS_HEAD = FEW_ROWS_TILE.block_p * 12 + FEW_ROWS * 8;  // bytes

// Its Q in fp16 parts: tiles of eight rows, and bytes in all.
constexpr int64_t few_rows_tiles(int64_t x_rows) { return (x_rows + 7) / 8; }
constexpr int64_t few_rows_bytes(int64_t x_rows, int64_t k) {
  const int64_t chunks = (k + FEW_ROWS_CHUNK - 1) / FEW_ROWS_CHUNK;
  return few_rows_tiles(x_rows) * 8 * chunks * FEW_ROWS_CHUNK * 4;
}

// A block of it, with room for the terms of so many chunks.
struct FewRowsBlock {
  int32_t threads, slots, shared_bytes;
};

// Two blocks a multiprocessor; or one with twice the warps if only that has room for all chunks, or
// if there is `one_each` at most. Slots for all chunks, or for some, used several times.
constexpr FewRowsBlock few_rows_block(int64_t x_rows, int64_t k, bool one_each) {
  constexpr int HALF = 113 * 1024;  // of a multiprocessor's shared memory, less what is reserved
  const int rows = static_cast<int>(x_rows);
  const int fixed = FEW_ROWS_HEAD + rows * FEW_ROWS_TILE.block_p * 8;
  const int slot = rows * FEW_ROWS_PITCH * 4 + 32 * 4;
  const int64_t chunks = (k + FEW_ROWS_CHUNK - 1) / FEW_ROWS_CHUNK;
  const int half = (HALF - fixed) / slot, whole = (FEW_ROWS_TILE.shared_bytes - fixed) / slot;
  const bool one = one_each || (half < chunks && chunks <= whole);
  const int room = one ? whole : half;
  const int slots = static_cast<int>(chunks <= room ? chunks : room / 16 * 16);
  return {one ? 512 : 256, slots, fixed + slots * slot};
}

}  // namespace tiled
