// The tiles of rung few_rows. Plain constants and no CUDA header, so that the planner reads the
// same numbers as the kernels.
//
// As in rung hopper the kernels compute D[p, q] = sum over k of P[p, k] * Q[q, k]. Here P is the
// operand of many rows, a layer's weight, and Q the one of few.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/segments.h"
#include "cuda/plan/tile_name.h"

namespace tiled {

// Which threads multiply, and by which instruction.
enum class FewRowsBy : int8_t {
  Wgmma,      // a warpgroup with wgmma: 16-bit floats and tf32
  Registers,  // the same, with P in its registers: tf32 along m or n
  Warps,      // warps with mma.sync: 16-bit floats
  Mma,        // the same: fp64
  Lanes,      // a thread has a row of P and chains of multiply-adds: fp32
  Patches,    // the same, of several rows and columns
};

// Tensor cores in fp32, whose tiles may be lower in shared memory than BLOCK_P.
constexpr bool has_low_tiles(FewRowsBy by) {
  return by == FewRowsBy::Wgmma || by == FewRowsBy::Registers || by == FewRowsBy::Warps;
}

constexpr bool is_by_lanes(FewRowsBy by) {
  return by == FewRowsBy::Lanes || by == FewRowsBy::Patches;
}

// The sums of a tree that wait at once in a thread's registers, four for up to 16 leaves. A kernel
// that has them in memory takes 1 µs longer (docs/decisions/056); a tile whose products need the
// registers has none, and is for leaves that are shared out among blocks.
constexpr int few_rows_waiting(FewRowsBy by, int columns) {
  return by == FewRowsBy::Patches || (by == FewRowsBy::Mma && columns > 16) ? 0 : 4;
}

// Whether a block may go through several segments of K.
constexpr bool has_totals(FewRowsBy by) { return by != FewRowsBy::Patches; }

// Whether it reads a Q that is contiguous along m or n; for others Q is copied.
constexpr bool takes_any_q(FewRowsBy by) {
  return by == FewRowsBy::Mma || by == FewRowsBy::Patches;
}
// Columns of a box of such a Q: rows of 128 bytes or less.
constexpr int few_rows_q_strip(int block_q, int element_bytes) {
  return std::min(block_q, 128 / element_bytes);
}

// Warps that fill stages in turn. Of many columns one is fast enough, and two are in each other's
// way.
constexpr int few_rows_producers(FewRowsBy by, int block_q) {
  return (by == FewRowsBy::Wgmma || by == FewRowsBy::Registers) && block_q >= 48 ? 1 : 2;
}

// At most P rows by Q columns of D for a block. A warp has ROWS of the rows, and GROUPS of warps
// share out the columns. A stage holds 256 bytes of K of both operands.
template <FewRowsBy BY_, int P, int Q, int ROWS, int GROUPS_>
struct FewRowsTile {
  static constexpr FewRowsBy BY = BY_;
  static constexpr int BLOCK_P = P;
  static constexpr int BLOCK_Q = Q;
  static constexpr int GROUPS = GROUPS_;
  static constexpr int BANDS = P / ROWS;
  static constexpr int WARPS = BANDS * GROUPS;  // that multiply
  static constexpr int COLUMNS = Q / GROUPS;    // of a warp
  static constexpr int THREAD_TILE_P = 1,
                       THREAD_TILE_Q = COLUMNS;  // of a lane, where lanes multiply
  static constexpr int PRODUCERS = few_rows_producers(BY_, Q);
  static constexpr int WAITING = few_rows_waiting(BY_, COLUMNS);
  static constexpr int THREADS = 32 * (WARPS + PRODUCERS);
  static constexpr int BOXES = 2;                      // of 128 bytes of K, in a stage
  static constexpr int P_BOX = P * 128;                // bytes; less where tiles are lower
  static constexpr int Q_BOX = (Q + 7) / 8 * 8 * 128;  // bytes: whole patterns of the swizzle

  static_assert(P % ROWS == 0 && Q % GROUPS == 0, "whole warps");
  static_assert(SEGMENT_K * 2 % (128 * BOXES) == 0, "a segment is a whole number of stages");
};

// wgmma has 64 rows: of a lower tile it reads what follows in shared memory for the others, and
// their sums are not stored. Its time depends on its columns alone.
template <FewRowsBy BY, int Q>
struct FewRowsWgmma : FewRowsTile<BY, 64, Q, 16, 1> {};
struct Few8 : FewRowsWgmma<FewRowsBy::Wgmma, 8> {};
struct Few16 : FewRowsWgmma<FewRowsBy::Wgmma, 16> {};
struct Few32 : FewRowsWgmma<FewRowsBy::Wgmma, 32> {};
struct Few48 : FewRowsWgmma<FewRowsBy::Wgmma, 48> {};
struct Few64 : FewRowsWgmma<FewRowsBy::Wgmma, 64> {};
// With P in registers only the warps that have rows of a tile load any.
struct Regs8 : FewRowsWgmma<FewRowsBy::Registers, 8> {};
struct Regs64 : FewRowsWgmma<FewRowsBy::Registers, 64> {};

// mma.sync has 16 rows and eights of columns.
template <int P, int Q, int GROUPS>
struct FewRowsMma : FewRowsTile<FewRowsBy::Mma, P, Q, 16, GROUPS> {
  static constexpr int EIGHTS = Q / GROUPS / 8;
};
// For 16-bit types; its strip along m or n is as wide as the tile.
struct Warps32x8 : FewRowsTile<FewRowsBy::Warps, 32, 8, 16, 1> {
  static constexpr int EIGHTS = 1;
};

struct Doubles32x8 : FewRowsMma<32, 8, 1> {};
struct Doubles64x8 : FewRowsMma<64, 8, 1> {};
struct Doubles32x16Apart : FewRowsMma<32, 16, 2> {};
struct Doubles64x16 : FewRowsMma<64, 16, 1> {};
struct Doubles64x32 : FewRowsMma<64, 32, 1> {};
struct Doubles32x64 : FewRowsMma<32, 64, 2> {};
struct Doubles48x64 : FewRowsMma<48, 64, 2> {};

// A lane has a row, and a chain for each column.
template <int P, int Q, int GROUPS>
struct FewRowsLanes : FewRowsTile<FewRowsBy::Lanes, P, Q, 32, GROUPS> {
  static constexpr int LANES_P = 32, LANES_Q = 1;
};
struct Lanes64x1 : FewRowsLanes<64, 1, 1> {};
struct Lanes64x2 : FewRowsLanes<64, 2, 1> {};
struct Lanes32x4 : FewRowsLanes<32, 4, 2> {};
struct Lanes64x4 : FewRowsLanes<64, 4, 2> {};
struct Lanes32x8 : FewRowsLanes<32, 8, 4> {};
struct Lanes64x8 : FewRowsLanes<64, 8, 2> {};
struct Lanes32x16 : FewRowsLanes<32, 16, 4> {};
struct Lanes64x16 : FewRowsLanes<64, 16, 2> {};

// A lane has LANE_ROWS rows and LANE_COLUMNS columns, and a warp 8 x 4 such thread tiles: the
// larger they are, the fewer values come from shared memory for a multiply-add. Four warps, one a
// scheduler.
template <int P, int Q, int LANE_ROWS, int LANE_COLUMNS>
struct FewRowsPatches
    : FewRowsTile<FewRowsBy::Patches, P, Q, 8 * LANE_ROWS, Q / (4 * LANE_COLUMNS)> {
  static constexpr int LANES_P = 8, LANES_Q = 4;
  static constexpr int THREAD_TILE_P = LANE_ROWS, THREAD_TILE_Q = LANE_COLUMNS;
  static_assert(FewRowsPatches::WARPS == 4);
};
struct Patches32x16 : FewRowsPatches<32, 16, 2, 2> {};
struct Patches32x32 : FewRowsPatches<32, 32, 2, 4> {};

using FewRowsTiles =
    TileList<Few8, Few16, Few32, Few48, Few64, Regs8, Regs64, Warps32x8, Doubles32x8, Doubles64x8,
             Doubles32x16Apart, Doubles64x16, Doubles64x32, Doubles32x64, Doubles48x64, Lanes64x1,
             Lanes64x2, Lanes32x4, Lanes64x4, Lanes32x8, Lanes64x8, Lanes32x16, Lanes64x16,
             Patches32x16, Patches32x32>;

// The layout of a stage in shared memory, and how many of them a block's ring has.
struct FewRowsStage {
  int32_t p_box, q_at, bytes;  // of a box of P; to Q's boxes; of the stage
  int32_t ring;                // stages, two barriers each behind them
  int32_t barriers;            // bytes to these
};

// A tile as values, for the planner and the launch.
struct FewRowsTileInfo {
  FewRowsBy by;
  int32_t block_p, block_q;  // elements
  int32_t columns;           // of a warp
  int32_t threads, boxes, p_box, q_box;
  int32_t thread_tile_p, thread_tile_q;  // of a lane, where lanes multiply

  // The stages of tiles of `rows` rows. One block fills a multiprocessor's shared memory with
  // stages that are being filled.
  constexpr FewRowsStage stage(int32_t rows) const {
    constexpr int32_t MOST = 227 * 1024, BARRIERS = 16, MOST_STAGES = 40;
    const int32_t p = has_low_tiles(by) ? rows * 128 : p_box;
    const int32_t bytes = boxes * (p + q_box);
    // The bytes that wgmma and ldmatrix read past the last stage: from their last box on, all of
    // BLOCK_P. (Other loads to registers end in Q's boxes.)
    const bool reads_all = by == FewRowsBy::Wgmma || by == FewRowsBy::Warps;
    const int32_t beyond = reads_all ? std::max(0, boxes * p_box - bytes) : 0;
    const int32_t ring = std::min(MOST_STAGES, (MOST - beyond) / (bytes + BARRIERS));
    return {p, boxes * p, bytes, ring, ring * bytes + beyond};
  }
  constexpr int32_t shared_bytes(int32_t rows) const {
    const FewRowsStage s = stage(rows);
    return s.barriers + 16 * s.ring;
  }

  template <typename Tile>
  static constexpr FewRowsTileInfo of() {
    return {Tile::BY,    Tile::BLOCK_P, Tile::BLOCK_Q, Tile::COLUMNS,       Tile::THREADS,
            Tile::BOXES, Tile::P_BOX,   Tile::Q_BOX,   Tile::THREAD_TILE_P, Tile::THREAD_TILE_Q};
  }
};
constexpr int FEW_ROWS_TILE_COUNT = FewRowsTiles::COUNT;
constexpr const FewRowsTileInfo& few_rows_tile(int index) {
  return FewRowsTiles::AS<FewRowsTileInfo>[index];
}
constexpr std::string_view few_rows_tile_name(int index) {
  return tile_name_of(FewRowsTiles(), index);
}

}  // namespace tiled
