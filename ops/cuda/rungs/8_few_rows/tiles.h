// The tiles of rung few_rows. Plain constants and no CUDA header, so that the planner reads the
// same numbers as the kernels.
//
// As in rung hopper the kernels compute D[p, q] = sum over k of P[p, k] * Q[q, k]. Here P is the
// operand of many rows, a layer's weight, and Q the one of few.
#pragma once

#include <cstdint>

#include "core/segments.h"
#include "cuda/plan/tile_name.h"

namespace tiled {

// P rows by Q columns of D for a block. A warp has ROWS of the rows, and GROUPS of warps share out
// the columns. A stage holds 256 bytes of K of both operands.
template <int P, int Q, int ROWS, int GROUPS_, int STAGES_>
struct FewRowsTile {
  static constexpr int BLOCK_P = P;
  static constexpr int BLOCK_Q = Q;
  static constexpr int GROUPS = GROUPS_;
  static constexpr int BANDS = P / ROWS;
  static constexpr int WARPS = BANDS * GROUPS;  // that multiply; one more loads
  static constexpr int COLUMNS = Q / GROUPS;    // of a warp
  static constexpr int THREADS = 32 * (WARPS + 1);
  static constexpr int STAGES = STAGES_;
  static constexpr int BOXES = 2;                      // of 128 bytes of K, in a stage
  static constexpr int P_BOX = P * 128;                // bytes
  static constexpr int Q_BOX = (Q + 7) / 8 * 8 * 128;  // whole patterns of the swizzle
  static constexpr int STAGE_BYTES = BOXES * (P_BOX + Q_BOX);
  static constexpr int SHARED_BYTES = STAGES * (STAGE_BYTES + 16);  // two barriers a stage

  static_assert(P % ROWS == 0 && Q % GROUPS == 0, "whole warps");
  static_assert(SHARED_BYTES <= 227 * 1024, "shared memory of a multiprocessor");
  static_assert(SEGMENT_K * 2 % (128 * BOXES) == 0, "a segment is a whole number of stages");
};

// On tensor cores: mma.sync has 16 rows and eights of columns. One block fills a multiprocessor's
// shared memory with stages on their way.
template <int P, int Q, int GROUPS, int STAGES>
struct FewRowsMma : FewRowsTile<P, Q, 16, GROUPS, STAGES> {
  static constexpr bool LANES = false;
  static constexpr int EIGHTS = Q / GROUPS / 8;
  static_assert(EIGHTS == 1 || EIGHTS % 2 == 0, "ldmatrix loads two eights at once");
};
struct Few32x8 : FewRowsMma<32, 8, 1, 20> {};
struct Few48x8 : FewRowsMma<48, 8, 1, 15> {};
struct Few64x8 : FewRowsMma<64, 8, 1, 12> {};
struct Few32x16 : FewRowsMma<32, 16, 1, 18> {};
struct Few48x16 : FewRowsMma<48, 16, 1, 13> {};
struct Few64x16 : FewRowsMma<64, 16, 1, 11> {};
struct Few32x32 : FewRowsMma<32, 32, 1, 13> {};
struct Few48x32 : FewRowsMma<48, 32, 1, 11> {};
struct Few64x32 : FewRowsMma<64, 32, 1, 9> {};
struct Few32x64 : FewRowsMma<32, 64, 2, 9> {};
struct Few48x64 : FewRowsMma<48, 64, 2, 8> {};
struct Few64x64 : FewRowsMma<64, 64, 2, 7> {};

// fp32 by chains of fused multiply-adds: a lane has a row, and a chain for each column.
template <int P, int Q, int GROUPS, int STAGES>
struct FewRowsLanes : FewRowsTile<P, Q, 32, GROUPS, STAGES> {
  static constexpr bool LANES = true;
  static constexpr int EIGHTS = 0;
};
struct Lanes32x1 : FewRowsLanes<32, 1, 1, 20> {};
struct Lanes64x1 : FewRowsLanes<64, 1, 1, 12> {};
struct Lanes32x2 : FewRowsLanes<32, 2, 1, 20> {};
struct Lanes64x2 : FewRowsLanes<64, 2, 1, 12> {};
struct Lanes32x4 : FewRowsLanes<32, 4, 2, 20> {};
struct Lanes64x4 : FewRowsLanes<64, 4, 2, 12> {};
struct Lanes32x8 : FewRowsLanes<32, 8, 4, 20> {};
struct Lanes64x8 : FewRowsLanes<64, 8, 2, 12> {};
struct Lanes32x16 : FewRowsLanes<32, 16, 4, 18> {};
struct Lanes64x16 : FewRowsLanes<64, 16, 2, 11> {};

using FewRowsTiles =
    TileList<Few32x8, Few48x8, Few64x8, Few32x16, Few48x16, Few64x16, Few32x32, Few48x32, Few64x32,
             Few32x64, Few48x64, Few64x64, Lanes64x1, Lanes32x1, Lanes64x2, Lanes32x2, Lanes32x4,
             Lanes64x4, Lanes32x8, Lanes64x8, Lanes32x16, Lanes64x16>;

// A tile as values, for the planner and the launch.
struct FewRowsTileInfo {
  int32_t block_p, block_q;  // elements
  int32_t warps, columns;    // of a warp
  bool lanes;
  int32_t threads, shared_bytes, boxes;
};

template <typename Tile>
constexpr FewRowsTileInfo few_rows_tile_info() {
  return {Tile::BLOCK_P, Tile::BLOCK_Q, Tile::WARPS,        Tile::COLUMNS,
          Tile::LANES,   Tile::THREADS, Tile::SHARED_BYTES, Tile::BOXES};
}

template <typename List>
struct FewRowsTable;
template <typename... Tiles>
struct FewRowsTable<TileList<Tiles...>> {
  static constexpr FewRowsTileInfo TILES[] = {few_rows_tile_info<Tiles>()...};
};
constexpr int FEW_ROWS_TILE_COUNT = FewRowsTiles::COUNT;
constexpr const FewRowsTileInfo& few_rows_tile(int index) {
  return FewRowsTable<FewRowsTiles>::TILES[index];
}
constexpr std::string_view few_rows_tile_name(int index) {
  return tile_name_of(FewRowsTiles(), index);
}

// P's boxes where it lies along m or n are so many elements wide: 64 or 128 bytes.
constexpr int few_rows_atom(int block_p, int element_bytes) {
  return block_p * element_bytes < 128 ? block_p : 128 / element_bytes;
}
// Whether they cover the tile.
constexpr bool takes_mn_major(int block_p, int element_bytes) {
  const int atom = few_rows_atom(block_p, element_bytes);
  return block_p % atom == 0 && (atom * element_bytes == 64 || atom * element_bytes == 128);
}

// Nine warps leave a thread 168 registers, which the accumulators of fp64 would spill.
constexpr bool fits_registers(int threads, int element_bytes) {
  return element_bytes < 8 || threads <= 256;
}

}  // namespace tiled
