// The named tiles of rung fp16x3. Plain constants, for the planner and the kernel.
#pragma once

#include <cstdint>

#include "cuda/plan/shared_limits.h"
#include "cuda/plan/sides.h"
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
  static constexpr int BARRIER_BYTES = (2 * STAGES + 2 + 3) * 8;  // the last of tiles that are cut
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

// For a narrow or small C, whose P is cut in registers on its way (engine/fp16x3/direct.cu): two
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
using Fp16x3Tiles = decltype(joined(Fp16x3PlaneTiles(), Fp16x3DirectTiles()));
constexpr int FP16X3_TILE_COUNT = Fp16x3Tiles::COUNT;
constexpr bool is_direct(int tile) { return tile >= Fp16x3PlaneTiles::COUNT; }

// async.cu's tile, from compute capability 8.0 on: P and Q of the tile, and of a warp. A step is 64
// of K of two planes of both operands, all of it in fresh accumulators. C leaves through the
// stages.
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

  template <typename Tile>
  static constexpr Fp16x3TileInfo of() {
    return {Tile::BLOCK_P, Tile::BLOCK_Q, Tile::THREADS, Tile::SHARED_BYTES, Tile::BLOCKS_PER_SM};
  }
};

// few_rows.cu's tile, whose Q has FEW_ROWS rows at most: 32 rows of P, shared out along K among
// the warps of up to FEW_ROWS_CLUSTER blocks.
constexpr int FEW_ROWS = 32;
constexpr int FEW_ROWS_BLOCK_P = 32;
constexpr int FEW_ROWS_CLUSTER = 8;
constexpr int FEW_ROWS_THREADS = 512;  // at most
constexpr int FEW_ROWS_CHUNK = 64;     // of K, one term of an element
constexpr int FEW_ROWS_PITCH = 36;     // floats, of terms from one row of X to the next
// Bytes in front of a block's terms, of a block alone and of one of a cluster.
constexpr int FEW_ROWS_HEAD_ALONE = FEW_ROWS_BLOCK_P * 16 + FEW_ROWS * 8;
constexpr int FEW_ROWS_HEAD =
    FEW_ROWS_HEAD_ALONE + FEW_ROWS * 8 + FEW_ROWS_CLUSTER * FEW_ROWS_BLOCK_P * 16;
constexpr int few_rows_head(int cluster) {
  return cluster > 1 ? FEW_ROWS_HEAD : FEW_ROWS_HEAD_ALONE;
}

// Registers allow for 512 threads a multiprocessor. Shared memory depends on the problem: this is
// the most, for it is taken from L1, where what is on its way from memory has its place. (Blocks
// with 203 KiB of a multiprocessor's took 20 % longer than with 194.)
template <int THREADS_>
struct X3FewRowsTile {
  static constexpr int BLOCK_P = FEW_ROWS_BLOCK_P;
  static constexpr int BLOCK_Q = FEW_ROWS;
  static constexpr int THREADS = THREADS_;
  static constexpr int BLOCKS_PER_SM = FEW_ROWS_THREADS / THREADS;
  static constexpr int SHARED_BYTES = (196 / BLOCKS_PER_SM - 1) * 1024;
};
struct FewRows256 : X3FewRowsTile<256> {};
struct FewRows512 : X3FewRowsTile<512> {};
struct FewRows128 : X3FewRowsTile<128> {};
using Fp16x3FewRowsTiles = TileList<FewRows256, FewRows512, FewRows128>;

// Its Q in fp16 parts: tiles of eight rows, and bytes in all.
constexpr int64_t few_rows_tiles(int64_t x_rows) { return (x_rows + 7) / 8; }
constexpr int64_t few_rows_bytes(int64_t x_rows, int64_t k) {
  const int64_t chunks = (k + FEW_ROWS_CHUNK - 1) / FEW_ROWS_CHUNK;
  return few_rows_tiles(x_rows) * 8 * chunks * FEW_ROWS_CHUNK * 4;
}

// A block of it has room for the chunks of its own, `slots` of them at a time, and of all
// blocks of its cluster the terms of its share of Q's rows.
struct FewRowsBlock {
  int32_t slots, shared_bytes;
};

// Slots for all chunks; or for some, a whole number for each warp, used several times and nearly
// all of them every time.
constexpr FewRowsBlock few_rows_block(int64_t x_rows, int64_t k, const Fp16x3TileInfo& tile,
                                      int cluster) {
  const int share = (static_cast<int>(x_rows) + cluster - 1) / cluster;
  const int fixed = few_rows_head(cluster) + share * FEW_ROWS_BLOCK_P * 8;
  const int slot = 32 * 4 + cluster * share * FEW_ROWS_PITCH * 4;
  const int64_t chunks = (k + int64_t{FEW_ROWS_CHUNK} * cluster - 1) / (FEW_ROWS_CHUNK * cluster);
  const int64_t room = (tile.shared_bytes - fixed) / slot, warps = tile.threads / 32;
  const int64_t rounds = chunks <= room ? 1 : blocks_over(chunks, room / warps * warps);
  const int64_t each = blocks_over(chunks, rounds);
  const int slots = static_cast<int>(rounds == 1 ? chunks : blocks_over(each, warps) * warps);
  return {slots, fixed + slots * slot};
}

}  // namespace tiled
