// The named tiles of rung hopper. Plain constants and no CUDA header, so that the planner reads the
// same numbers as the kernel.
//
// The kernel computes D[p, q] = sum over k of P[p, k] * Q[q, k]: P is the operand on wgmma's side
// of 64 rows, Q the one on its side of 16 to 256 columns. P is A and Q is B's transpose, or, with
// swap_ab P is B's transpose and Q is A; both give the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/segments.h"
#include "cuda/plan/cluster_plan.h"
#include "cuda/plan/tile_name.h"

namespace tiled {

// Registers of a consumer's thread, by the tile's consumer warpgroups, after the producer has given
// up its own.
constexpr int consumer_registers(int consumers) { return consumers == 3 ? 160 : 232; }

// Cycles of an H200's: what one warp needs to fill a stage of so many copies, for the word that it
// may and for these; and what a stage's products take.
constexpr int filling_cycles(int copies) { return 170 + 46 * copies; }
template <typename Tile>
constexpr int product_cycles() {
  return Tile::BLOCK_P * Tile::BLOCK_Q / 32;
}
// Warps that fill stages in turn, and how many of the first stages are one's alone: a lap of the
// ring where it is nearly fast enough (parts/pipeline/stage_ring.cuh).
template <typename Tile>
constexpr int hopper_producers(int copies) {
  return filling_cycles(copies) > product_cycles<Tile>() ? 2 : 1;
}
template <typename Tile>
constexpr int hopper_stages_of_one(int copies, int lap) {
  return filling_cycles(copies) > product_cycles<Tile>() + 20 ? 0 : lap;
}

// Shared memory in which units of groups are passed on (passed_units.cuh).
constexpr int UNIT_BYTES = 64, UNIT_PLACES = 8, UNITS_BYTES = UNIT_PLACES * (UNIT_BYTES + 16) + 16;

enum class Roles : int8_t {
  Cooperative,  // the consumer warpgroups share a tile
  PingPong,     // each has a tile of its own; one stores while the other multiplies
};

// P x Q elements of C for a tile. CONSUMERS_ warpgroups share its rows of P (Cooperative) or take
// whole tiles in turn (PingPong). A stage holds 128 bytes of K of both operands.
template <int P, int Q, int CONSUMERS_, Roles ROLES, int STAGES_, int BLOCKS = 1, int SLICES_ = 2>
struct HopperTile {
  static constexpr int BLOCK_P = P;
  static constexpr int BLOCK_Q = Q;
  static constexpr bool PING_PONG = ROLES == Roles::PingPong;
  static constexpr int CONSUMERS = CONSUMERS_;                   // warpgroups
  static constexpr int GROUP_P = PING_PONG ? P : P / CONSUMERS;  // a warpgroup's rows of the tile
  static constexpr int SLICES = SLICES_;                         // a consumer's
  static constexpr int THREADS = 128 * (CONSUMERS + 1);
  static constexpr int BLOCKS_PER_SM = BLOCKS;
  // Shared memory, of a multiprocessor's 227 KiB: the stages; slices of C; barriers.
  static constexpr int ROOM = 227 * 1024 / BLOCKS;
  static constexpr int stage_bytes(bool q_mn_major) {
    return (P + (q_mn_major ? rows_in_atoms(Q, Q) : Q)) * 128;
  }
  static constexpr int bytes_with(int stages, bool q_mn_major, int slice_q) {
    return stages * stage_bytes(q_mn_major) + CONSUMERS * SLICES * 64 * slice_q * 2 +
           (2 * stages + 2) * 8;
  }
  // C leaves through shared memory in slices of 64 x SLICE_Q elements of 16 bits. Each consumer has
  // two or more, so that one is filled while the others are copied out. The last slice of a row may
  // begin within the one before it: the widest for which that writes at most a seventh twice.
  static constexpr int widest_slice() {
    for (const int width : {64, 32})
      if ((Q + width - 1) / width * width * 7 <= Q * 8 && bytes_with(STAGES_, false, width) <= ROOM)
        return width;
    return 16;
  }
  static constexpr int SLICE_Q = widest_slice();
  static constexpr int SLICE_BYTES = 64 * SLICE_Q * 2;
  // As many as the tile asks for, or as fit where Q is contiguous along m or n and its rows end
  // beyond it.
  static constexpr int stages(bool q_mn_major) {
    int stages = STAGES_;
    while (bytes_with(stages, q_mn_major, SLICE_Q) > ROOM) --stages;
    return stages;
  }
  static constexpr int SHARED_BYTES =
      UNITS_BYTES +
      std::max(bytes_with(stages(false), false, SLICE_Q), bytes_with(stages(true), true, SLICE_Q));
  // A scaled product has as many stages as fit beside their scales, which have one place more than
  // there are stages.
  static constexpr int scaled_bytes(int stages) {
    return UNITS_BYTES + bytes_with(stages, false, SLICE_Q) + (stages + 1) * (P + Q) * 4;
  }
  static constexpr int scaled_stages() {
    int stages = STAGES_;
    while (scaled_bytes(stages) > ROOM) --stages;
    return stages;
  }
  static constexpr int SCALED_STAGES = scaled_stages(), SCALED_BYTES = scaled_bytes(SCALED_STAGES);
  // Registers of a thread: the producer gives up what the consumers take. All of them together
  // must fit 65,536, and so must THREADS times the number that the launch starts with.
  static constexpr int PRODUCER_REGISTERS = CONSUMERS == 3 ? 32 : 40;
  static constexpr int CONSUMER_REGISTERS = consumer_registers(CONSUMERS);
  static constexpr bool MOVES_REGISTERS = CONSUMERS > 1;
  // Whether a total of segments fits a consumer's registers beside accumulators, where no operand
  // needs any, as tf32's may (totals_stay()). Consumers in turn have room for one set alone.
  static constexpr bool TOTALS_FIT =
      !PING_PONG && BLOCKS == 1 && 2 * (GROUP_P / 64 * Q / 2) + 48 <= CONSUMER_REGISTERS;

  // Sums of a tree that wait in a consumer's registers, beside its accumulators and 40 registers
  // for all else; four are those of sixteen leaves.
  static constexpr int SUMS_KEPT =
      std::min(4, ((MOVES_REGISTERS ? CONSUMER_REGISTERS : 65536 / (BLOCKS * THREADS)) - 40) /
                          (GROUP_P / 64 * Q / 2) -
                      1);

  static_assert(GROUP_P % 64 == 0, "a wgmma has 64 rows");
  static_assert(Q % 8 == 0 && Q <= 256, "the widths of wgmma");
  static_assert(P <= 256, "the largest box of TMA");
  static_assert(GROUP_P / 64 * Q / 2 <= 192, "accumulators that leave registers to spare");
  static_assert(stages(false) == STAGES_ && stages(true) > 2 && SHARED_BYTES <= ROOM,
                "they fit shared memory");
  static_assert(SEGMENT_K * 2 % 128 == 0, "a segment is a whole number of stages");
};

constexpr Roles COOP = Roles::Cooperative, PING = Roles::PingPong;

// Large: the fewest bytes from L2 and shared memory for a multiply-add.
struct Coop128x256 : HopperTile<128, 256, 2, COOP, 4> {};
struct Coop192x176 : HopperTile<192, 176, 3, COOP, 4> {};
struct Coop128x160 : HopperTile<128, 160, 2, COOP, 5> {};
struct Coop192x128 : HopperTile<192, 128, 3, COOP, 4> {};
struct Coop128x224 : HopperTile<128, 224, 2, COOP, 4> {};
// One warpgroup stores while the other multiplies.
struct Ping128x128 : HopperTile<128, 128, 2, PING, 6> {};
struct Ping128x160 : HopperTile<128, 160, 2, PING, 5> {};
struct Ping128x192 : HopperTile<128, 192, 2, PING, 4> {};
struct Ping64x128 : HopperTile<64, 128, 2, PING, 7> {};
// Middle sizes, where the number of tiles decides.
struct Coop128x176 : HopperTile<128, 176, 2, COOP, 5> {};
struct Coop128x128 : HopperTile<128, 128, 2, COOP, 6> {};
struct Coop128x112 : HopperTile<128, 112, 2, COOP, 6> {};
struct Coop128x96 : HopperTile<128, 96, 2, COOP, 6> {};
struct Coop192x96 : HopperTile<192, 96, 3, COOP, 5> {};
// Small: one consumer, many stages in flight.
struct Deep64x192 : HopperTile<64, 192, 1, COOP, 6> {};
struct Deep64x128 : HopperTile<64, 128, 1, COOP, 8> {};
struct Deep64x96 : HopperTile<64, 96, 1, COOP, 10> {};
struct Deep64x64 : HopperTile<64, 64, 1, COOP, 12> {};
struct Solo64x16 : HopperTile<64, 16, 1, COOP, 10, 2> {};

// For bytes alone. With fp8 a consumer keeps the totals of two strips and the sums of one block of
// K, and none of its kernels has scales of blocks: ptxas has no registers for these beside two
// strips (docs/decisions/052). Three slices that are half as wide leave room for the scales.
struct Coop256x128 : HopperTile<256, 128, 2, COOP, 4, 1, 3> {};
struct Solo64x32 : HopperTile<64, 32, 1, COOP, 8, 2> {};

using HopperTiles = TileList<Coop128x256, Coop192x176, Coop128x160, Coop192x128, Coop128x224,
                             Ping128x128, Ping128x160, Ping128x192, Ping64x128, Coop128x176,
                             Coop128x128, Coop128x112, Coop128x96, Coop192x96, Deep64x192,
                             Deep64x128, Deep64x96, Deep64x64, Solo64x16, Coop256x128, Solo64x32>;

// The tiles that have kernels for groups.
using GroupedTiles = TileList<Coop128x256, Ping128x192, Deep64x64, Solo64x16>;

// The tiles that have kernels whose K a tree sums, of 16-bit operands.
using TreeTiles = TileList<Coop128x128, Deep64x64, Solo64x16>;

// The tiles that have kernels for scaled products, for these with groups, and those whose kernels
// are for operands of 8 bits alone.
using ScaledTiles =
    TileList<Coop256x128, Coop192x128, Coop128x128, Deep64x64, Solo64x32, Solo64x16>;
using GroupedScaledTiles = TileList<Coop256x128, Coop192x128, Coop128x128, Deep64x64, Solo64x16>;
using ByteTiles = TileList<Coop256x128, Solo64x32>;

template <typename Tile, typename... Tiles>
constexpr bool is_one_of(TileList<Tiles...>) {
  return (std::is_same_v<Tile, Tiles> || ...);
}
template <typename Tile>
constexpr bool OF_GROUPS = is_one_of<Tile>(GroupedTiles());
template <typename Tile>
constexpr bool OF_TREES = is_one_of<Tile>(TreeTiles());
template <typename Tile>
constexpr bool OF_SCALED = is_one_of<Tile>(ScaledTiles());
template <typename Tile>
constexpr bool OF_SCALED_GROUPS = is_one_of<Tile>(GroupedScaledTiles());
template <typename Tile>
constexpr bool ONLY_BYTES = is_one_of<Tile>(ByteTiles());

// Whether wgmma can take P from registers, as it must where tf32 is contiguous along m or n: 32 of
// them hold a strip of 64 rows of two stages, beside its accumulators and what else a consumer
// needs.
constexpr bool reads_by_registers(int group_p, int block_q, int consumers) {
  return group_p == 64 && block_q / 2 + 32 + 48 <= consumer_registers(consumers);
}

// Whether a tile's total of segments stays in registers: by whether it fits, of elements so wide.
constexpr bool totals_stay(bool totals_fit, int64_t element_bytes) {
  return totals_fit && element_bytes == 2;
}

// A slice of C whose elements are not of 16 bits but as wide as this: its columns along q, and the
// elements of its rows where these are contiguous along p, of which TMA's swizzles take 128 bytes.
constexpr int slice_columns(int slice_q, int64_t element_bytes) {
  return element_bytes == 4 ? slice_q / 2 : slice_q;
}
constexpr int slice_row(int64_t element_bytes) { return element_bytes == 4 ? 32 : 64; }

// A tile as values, for the planner and the launch.
struct HopperTileInfo {
  int32_t block_p, block_q;  // elements
  int32_t group_p;           // a consumer's rows of P
  int32_t slice_q;           // elements
  int32_t consumers;
  int32_t sums_kept;  // of a tree, in registers
  bool ping_pong, totals_fit, of_groups, of_trees, of_scaled, of_scaled_groups, only_bytes;
  int32_t threads;
  int32_t shared_bytes, scaled_bytes;
  int32_t blocks_per_sm;

  template <typename Tile>
  static constexpr HopperTileInfo of() {
    return {Tile::BLOCK_P,      Tile::BLOCK_Q,   Tile::GROUP_P,      Tile::SLICE_Q,
            Tile::CONSUMERS,    Tile::SUMS_KEPT, Tile::PING_PONG,    Tile::TOTALS_FIT,
            OF_GROUPS<Tile>,    OF_TREES<Tile>,  OF_SCALED<Tile>,    OF_SCALED_GROUPS<Tile>,
            ONLY_BYTES<Tile>,   Tile::THREADS,   Tile::SHARED_BYTES, Tile::SCALED_BYTES,
            Tile::BLOCKS_PER_SM};
  }
};
constexpr int HOPPER_TILE_COUNT = HopperTiles::COUNT;
constexpr const HopperTileInfo& hopper_tile(int index) {
  return HopperTiles::AS<HopperTileInfo>[index];
}
constexpr std::string_view hopper_tile_name(int index) {
  return tile_name_of(HopperTiles(), index);
}

}  // namespace tiled
