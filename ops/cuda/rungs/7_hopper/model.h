// The constants of rung hopper's model of time (model.cpp), as they are on one chip.
#pragma once

#include <algorithm>

#include "cuda/plan/chip_scale.h"
#include "cuda/rungs/7_hopper/tile_fit.h"

namespace tiled {

// Blocks of a cluster begin and end together, and wait for each other at each step.
struct CoupledFit {
  double begin;             // cycles
  double share_q, share_p;  // of a step, where they share Q, or P
};

// An H200's: cycles of 1755 MHz, and factors on what the units do at best (2048 multiply-adds of 16
// bits and 128 bytes of shared memory a cycle). Those of 16-bit inputs, fitted to the measured
// times of the ways to run bf16 problems, so as to lose little by the choice and to be right by a
// few percent, beside the other rungs' estimates: to 361 problems, drawn, of layers, long and
// thin, and deep (`mixed` in bench/results/h200_planner.json, which also says what is lost there
// and on others). What each constant would be by itself is not fitted: some make up for others.
struct HopperConstants {
  double start = 3217;                           // launch, the first bytes' way, the end
  CoupledFit small = {587.9, 0.1455, 0.02381};   // of tiles of 64 rows,
  CoupledFit large = {1157, 0, 0};               // of more,
  CoupledFit four_small = {445.8, 0.02124, 0};   // of four such blocks,
  CoupledFit four = {19.65, 0.005708, 0.01147};  // and of four others
  double cold = 0.007934;  // of a step, more, where what they do not share comes from DRAM to each
  double tensor = 0.5907;  // and more, when all multiprocessors work at once,
  double power = 3.558;    // by so much of H200_SLOWDOWN, which slows shared memory as well
  double shared = 0.61;    // memory
  double chip = 0.1;       // tensor, of the whole chip, however tiles divide among multiprocessors;
  static constexpr double CHIP_POWER = 12.07;  // how sharply the one takes over from the other
  double lone = 155.5;                         // the shortest step of a tile with one consumer
  double arrive = 0.8915;                      // 128 bytes reach their multiprocessor
  // A row of 128 bytes leaves L2 while the whole chip reads: in one line, as much where rows lie
  // along m or n; more if in two lines; more if it begins off L2's sectors of 32 bytes. Reads by
  // multicast cost nothing here. The first read of a round costs first_read more of these; the
  // row's readers share that.
  double line = 0.7124, mn_line = 1.146, two_lines = 0.8574, off_sectors = 0.264;
  double first_read = 2.299;
  double narrow = 1.434, narrowest = 1.86;  // boxes of TMA 64 and 32 bytes wide
  // A cycle, of the chip. What several clusters read without multicast crosses between L2's halves.
  double dram_bytes = 5048;
  double crossing = 1.628;
  double store = 19.8;           // C, for each element of a thread
  double store_two_lines = 0;    // more, for rows of C that lie in two lines
  double slice = 0.3261;         // more, for slices of half the width
  double hidden_store = 0.1487;  // of a store behind another's products
  double turn = 356.8;           // of a tile, from a block's second on: its begin and its end
  double again = 2.261;  // a row of what all tiles of several rounds read: a few lines of L2
  double gaps = 0.1045;  // of all but the first round, with no other tile to fill
  // Where blocks share out segments of K, a step of tensor is no less than what the instructions
  // take, though few blocks run; a store of sums at C's edge is slower (fitted when each was asked
  // for by itself; those of today ask less); and blocks that leave multiprocessors free read DRAM
  // so much slower, in all.
  double alone = 1.171, share_edge_store = 2.854, share_free = 0.05;
};

// Of tf32, and of chips with slower tensor cores, for which products wait more and tiles are more
// alike: an earlier fit to 16-bit inputs, without factors of each tile.
constexpr HopperConstants constants_elsewhere() {
  HopperConstants c;
  c.start = 3620, c.small = c.large = c.four_small = c.four = {391, 0.033, 0.033}, c.cold = 0;
  c.tensor = 0.891, c.power = 1, c.shared = 1.13, c.lone = 223;
  c.arrive = 1.43, c.line = 0.0642, c.mn_line = 1, c.two_lines = 1.57, c.off_sectors = 0.862;
  c.first_read = 2.47, c.narrow = 1.48, c.narrowest = 2.19;
  c.chip = 0, c.dram_bytes = 3800, c.crossing = 0.723;
  c.store = 13, c.store_two_lines = 1.45, c.slice = 0.25, c.hidden_store = 0.383, c.gaps = 0.0571;
  c.turn = c.again = 0, c.alone = 0, c.share_edge_store = 1, c.share_free = 0;
  return c;
}

struct HopperModel : HopperConstants {
  bool of_tiles;                         // whether each tile has factors of its own (tile_fit.h)
  double slowdown;                       // by power, when all multiprocessors work at once
  static constexpr double ROUNDING = 2;  // of a row, where it is rounded to tf32 on its way
  // Nothing is faster than memory: of its bandwidth this rung gets so much, by C's rows or columns.
  // Below that the order of the tiles is kept, so little apart.
  double clock_hz = 1755e6;
  static constexpr double BELOW_DRAM = 0.05;
  static constexpr double dram_share(double few, double rounds, bool is_short) {
    return few > 32 ? 0.8 : is_short && rounds >= 4 ? 0.88 : 0.63;
  }
  // A K of so few bytes is short. Longer ones with so few rows were not fitted to; beside few_rows,
  // whose choice was measured there (h200_decode_*.json), hopper counts so much more.
  static constexpr double SHORT = 2048, FEW = 64, BESIDE_FEW_ROWS = 1.07;
  // And later, where tiles have few rows and a ring holds little of a weight (h200_decode_*.json).
  static constexpr double dram_start(double few, double bytes) {  // cycles
    return few <= 64 ? 5000 * std::min(1.0, bytes / 32e6) : 0;
  }
  // An epilogue's: of a tile, and for each value of a thread; and an activation's, of which relu is
  // one instruction: alone, and more for each of the warpgroups that compute it at once. Of another
  // output, by the store of C. How sharply the longer of products and an epilogue beside them
  // decides. Fitted to every column of times of bench/results/h200_linear_tiles.txt, so as to lose
  // little by the choice.
  static constexpr double FINISH = 1300, COMBINE = 5, RELU = 7;
  static constexpr double ACTIVATE = 20, ACTIVATE_TOGETHER = 19;
  static constexpr double KEEP = 1.3, FINISH_BESIDE = 1.5;
  static constexpr double ROWS_SLICE = 0.5;  // as slice, where warps write rows
  // From an earlier fit too: totals of segments to and from L2. Where they stay in registers, what
  // a consumer loses between two segments. That is not fitted: 18 such products on an H100 took
  // from 6 % less to 35 % more than estimated without (bench/results/h100/segments.txt), and it is
  // enough to leave 768 x 640 x 32768 to a faster way.
  double flush = 4.38, hidden_flush = 4.14;
  static constexpr double BETWEEN_SEGMENTS = 1200;
  // Tiles that are cut in time: words are cleared before; a block's accumulators go to L2 and
  // another's come from there, beside another consumer's products or not, cycles for an element;
  // and clusters that are not at the same k read less together, a share of a step.
  double clear_kernel = 2808, hand_over = 0.1163, hidden_hand_over = 0.12, out_of_step = 0.05144;
  // Lines a cycle that L2 answers to each multiprocessor when all ask, and how much longer it is
  // busy with those along m or n, with two for a row of 128 bytes, and with rows off its sectors.
  // Where that takes more than a share of what the products do at best, blocks that read the same
  // drift apart: they lose by it what operands are larger than L2, and consumers in turn whose
  // blocks share Q lose at any size. Fitted to all ways of 44 large products on an H100
  // (large_fitted in bench/results/h100/planner.json). Faster memory makes up for more: 2x1 costs
  // Ping128x128 3 to 8 % more than 1x2 there, and nothing on an H200.
  static constexpr double LINES_A_CYCLE = 0.606;
  static constexpr double MN_LINE_BUSY = 1.13, TWO_LINES_BUSY = 0.26, OFF_SECTORS_BUSY = 0.25;
  double drifts_from = 0.7;
  static constexpr double DRIFT = 0.53, DRIFT_POWER = 1.57, DRIFT_BYTES = 0.7, DRIFT_TOGETHER = 0.5;
  double repack_kernel = 2000, repack_cycles_a_byte = 0.9e-3;  // of the copy
  // More, for blocks without a cluster where operands beyond the size of L2 were copied just
  // before: the copies are on their way to DRAM still, and are read from there again.
  static constexpr double ALONE_AFTER_REPACK = 0.08;
  double l2_bytes = 4e7;

  // Products take as long as the tensor cores' rate says, reads of L2 and DRAM what each
  // multiprocessor has of theirs, launches a time of their own; shared memory, and how blocks wait
  // for each other, are the same on every chip.
  HopperModel(const DeviceInfo& device, Arithmetic arithmetic);

  TileFit of(int tile) const { return of_tiles ? tile_fit(tile) : TileFit{}; }
};

}  // namespace tiled
