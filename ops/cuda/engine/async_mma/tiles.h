// The tiles of rung async_mma. Plain constants, for the planner and the kernels.
#pragma once

#include "core/segments.h"
#include "cuda/plan/shared_limits.h"
#include "cuda/plan/tile_name.h"

namespace tiled {

// A tile of M x N of C, of which a warp owns WARP_ROWS x WARP_COLUMNS. Steps of K_BYTES of K of
// both operands are in shared memory, STAGE_COUNT of them. ANY_ALIGNMENT: its operands need not be
// at multiples of 16 bytes.
template <int M, int N, int K_BYTES, int WARP_ROWS, int WARP_COLUMNS, int STAGE_COUNT, int BLOCKS,
          bool ANY_ALIGNMENT = false>
struct AsyncMmaTile {
  static constexpr int BLOCK_M = M;
  static constexpr int BLOCK_N = N;
  static constexpr int STEP_BYTES = K_BYTES;
  static constexpr int WARP_M = WARP_ROWS;
  static constexpr int WARP_N = WARP_COLUMNS;
  static constexpr int WARPS_N = N / WARP_COLUMNS;
  static constexpr int THREADS = (M / WARP_ROWS) * WARPS_N * 32;
  static constexpr int STAGES = STAGE_COUNT;
  static constexpr int BLOCKS_PER_SM = BLOCKS;  // asked of the compiler, which fits the registers
  static constexpr bool ANY = ANY_ALIGNMENT;
  static constexpr bool SM75 = false;
  static constexpr int RASTER_ROWS = 2048;  // of C, that blocks go down before the next column
  static constexpr int STAGE_BYTES = (M + N) * K_BYTES;
  static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES;

  static_assert(K_BYTES == 64 || K_BYTES == 128, "the rows that the swizzle knows");
  static_assert(SEGMENT_K % K_BYTES == 0, "a segment is a whole number of steps");
  static_assert(WARP_M % 16 == 0 && WARP_N % 16 == 0 && M % WARP_M == 0 && N % WARP_N == 0,
                "warps are made of tiles of 16 x 8, two of which are loaded at once");
  static_assert(STAGES >= 2, "a stage is filled while another is read");
  static_assert(SHARED_BYTES >= M * N * 2, "C leaves through the stages, 16 bits an element");
  static_assert(SHARED_BYTES <= (M * N > 128 * 128 ? SHARED_OF_8_0 : SHARED_OF_8_6),
                "the largest is for compute capabilities 8.0 and 9.0, the others for 8.6 too");
  static_assert(BLOCKS * (SHARED_BYTES + 1024) <= 228 * 1024, "the blocks fit one of 9.0");
};

struct Async128x256 : AsyncMmaTile<128, 256, 64, 64, 64, 6, 1> {};
struct Async128x128 : AsyncMmaTile<128, 128, 128, 64, 32, 3, 1> {};
struct Async64x64 : AsyncMmaTile<64, 64, 128, 32, 32, 6, 2> {};
struct Async32x64 : AsyncMmaTile<32, 64, 128, 16, 32, 8, 2> {};
// For a C too small to keep a chip busy otherwise: few rows, or a deep K.
struct Async16x32 : AsyncMmaTile<16, 32, 128, 16, 16, 8, 4> {};
struct Async16x16 : AsyncMmaTile<16, 16, 128, 16, 16, 8, 6> {};
// Threads hold some of a stage in registers, which leaves less of them to sums.
struct Any128x128 : AsyncMmaTile<128, 128, 64, 64, 32, 6, 1, true> {};
struct Any64x64 : AsyncMmaTile<64, 64, 128, 32, 32, 4, 2, true> {};

using AsyncMmaTiles = TileList<Async128x256, Async128x128, Async64x64, Async32x64, Async16x32,
                               Async16x16, Any128x128, Any64x64>;

// For compute capability 7.5, which has no cp.async: all of a stage waits in registers while the
// stage before is multiplied, so two are enough. Its mma.sync takes 8 of k.
template <int M, int N, int K_BYTES, int WARP_ROWS, int WARP_COLUMNS, int BLOCKS>
struct RegisterStagedTile : AsyncMmaTile<M, N, K_BYTES, WARP_ROWS, WARP_COLUMNS, 2, BLOCKS, true> {
  static constexpr bool SM75 = true;
  static_assert(BLOCKS * RegisterStagedTile::SHARED_BYTES <= 64 * 1024,
                "the blocks fit one of 7.5");
};
struct RegisterStaged128x128 : RegisterStagedTile<128, 128, 64, 64, 32, 1> {};
struct RegisterStaged64x64 : RegisterStagedTile<64, 64, 128, 32, 32, 2> {};
using RegisterStagedTiles = TileList<RegisterStaged128x128, RegisterStaged64x64>;

// A tile as values, for the planner and the launch.
struct AsyncMmaTileInfo {
  int32_t block_m, block_n, step_bytes;
  int32_t warp_m, warp_n, threads, shared_bytes, blocks_per_sm;
  bool any, of_7_5;

  template <typename Tile>
  static constexpr AsyncMmaTileInfo of() {
    return {Tile::BLOCK_M, Tile::BLOCK_N,      Tile::STEP_BYTES,    Tile::WARP_M, Tile::WARP_N,
            Tile::THREADS, Tile::SHARED_BYTES, Tile::BLOCKS_PER_SM, Tile::ANY,    Tile::SM75};
  }
};

// By number those of 7.5 follow the others.
using AllAsyncMmaTiles = decltype(joined(AsyncMmaTiles(), RegisterStagedTiles()));
constexpr int FIRST_HELD_TILE = AsyncMmaTiles::COUNT;
constexpr int ASYNC_MMA_TILE_COUNT = AllAsyncMmaTiles::COUNT;
constexpr const AsyncMmaTileInfo& async_mma_tile(int index) {
  return AllAsyncMmaTiles::AS<AsyncMmaTileInfo>[index];
}
constexpr std::string_view async_mma_tile_name(int index) {
  return tile_name_of(AllAsyncMmaTiles(), index);
}

}  // namespace tiled
