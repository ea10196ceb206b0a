// The tiles of rung tall. Plain constants, for the planner and the kernels.
#pragma once

#include "core/segments.h"
#include "cuda/plan/shared_limits.h"
#include "cuda/plan/tile_name.h"

namespace tiled {

// A warp's strip of STRIP_ROWS x COLUMNS of C. BYTES of K of its rows are a stage of the warp's own
// ring. CHAINS: of fp32, by multiply-adds; else of 16 bits, on tensor cores.
template <int STRIP_ROWS, int COLUMNS, int BYTES, int STAGE_COUNT, int BLOCKS, bool OF_CHAINS>
struct TallTile {
  static constexpr int ROWS = STRIP_ROWS;
  static constexpr int BLOCK_N = COLUMNS;
  static constexpr int STAGES = STAGE_COUNT;
  static constexpr int WARPS = 8;
  static constexpr int THREADS = WARPS * 32;
  // Asked of the compiler, which fits the registers; the kernel for all problems needs more of
  // them.
  static constexpr int BLOCKS_PER_SM = OF_CHAINS ? BLOCKS : 2;
  static constexpr int PLAIN_BLOCKS_PER_SM = BLOCKS;
  static constexpr bool CHAINS = OF_CHAINS;
  static constexpr int ELEMENT_BYTES = CHAINS ? 4 : 2;
  static constexpr int STEP_K = BYTES / ELEMENT_BYTES;
  // Bytes from a line to the next: there is room for what stands before one that is not aligned,
  // and eight lines are read without a bank conflict. Chains read one line along m at a time, and
  // it begins where no sector is fetched twice (ptx::CP_ASYNC_ALIGNMENT). Aligned lines of 16 bits
  // do so too: they are swizzled, and need no more bytes than their own.
  static constexpr int pitch(bool along_m, bool is_swizzled) {
    const int own = along_m ? ROWS * ELEMENT_BYTES : BYTES;
    return own + (is_swizzled ? 0 : along_m && CHAINS ? 32 : 16);
  }
  static constexpr bool swizzles(bool plain) { return plain && !CHAINS; }
  static constexpr int BYTES_ALONG_K = ROWS * pitch(false, false);
  static constexpr int BYTES_ALONG_M = STEP_K * pitch(true, false);
  static constexpr int STAGE_BYTES = BYTES_ALONG_K > BYTES_ALONG_M ? BYTES_ALONG_K : BYTES_ALONG_M;
  // Rows of C that leave through shared memory as one stretch: of chains a lane's, or a fragment's.
  static constexpr int STORE_ROWS = CHAINS ? 8 : 16;
  static constexpr int STORE_BYTES = STORE_ROWS * COLUMNS * ELEMENT_BYTES;
  static constexpr int WARP_BYTES = STAGES * STAGE_BYTES + STORE_BYTES;
  static constexpr int RINGS_BYTES = WARPS * WARP_BYTES;  // the panel follows

  static_assert(BYTES % 32 == 0 && SEGMENT_K % STEP_K == 0, "a segment is a whole number of steps");
  static_assert(STAGES >= 2, "a stage is filled while another is read");
  static_assert(CHAINS ||
                    (BYTES == 64 && ROWS == 32 && STAGE_BYTES % 512 == 0 && WARP_BYTES % 512 == 0),
                "lines of 64 bytes, which are swizzled by their place in eight");
  static_assert(CHAINS ? ROWS % 8 == 0 && COLUMNS % 16 == 0 : ROWS % 16 == 0 && COLUMNS % 16 == 0);
};

struct Tall32x16 : TallTile<32, 16, 64, 2, 4, false> {};
struct Tall32x32 : TallTile<32, 32, 64, 3, 3, false> {};
struct Tall32x48 : TallTile<32, 48, 64, 3, 2, false> {};

struct Chain32x16 : TallTile<32, 16, 64, 3, 2, true> {};
struct Chain32x32 : TallTile<32, 32, 64, 3, 2, true> {};
struct Chain64x48 : TallTile<64, 48, 64, 3, 1, true> {};

using TensorTallTiles = TileList<Tall32x16, Tall32x32, Tall32x48>;
using ChainTallTiles = TileList<Chain32x16, Chain32x32, Chain64x48>;

// A tile as values, for the planner.
struct TallTileInfo {
  int32_t rows, block_n, step_k, warps, threads, blocks_per_sm, plain_blocks_per_sm;
  int32_t rings_bytes;
  bool chains;

  template <typename Tile>
  static constexpr TallTileInfo of() {
    return {Tile::ROWS,
            Tile::BLOCK_N,
            Tile::STEP_K,
            Tile::WARPS,
            Tile::THREADS,
            Tile::BLOCKS_PER_SM,
            Tile::PLAIN_BLOCKS_PER_SM,
            Tile::RINGS_BYTES,
            Tile::CHAINS};
  }
};

// By number those of chains follow the others.
using TallTiles = decltype(joined(TensorTallTiles(), ChainTallTiles()));
constexpr int FIRST_CHAIN_TILE = TensorTallTiles::COUNT;
constexpr int TALL_TILE_COUNT = TallTiles::COUNT;
constexpr const TallTileInfo& tall_tile(int index) { return TallTiles::AS<TallTileInfo>[index]; }
constexpr std::string_view tall_tile_name(int index) { return tile_name_of(TallTiles(), index); }

}  // namespace tiled
