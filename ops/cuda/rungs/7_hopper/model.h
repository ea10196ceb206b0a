// The constants of rung hopper's model of time (model.cpp), as they are on one chip.
#pragma once

#include "cuda/plan/chip_scale.h"

namespace tiled {

struct HopperModel {
  // An H200's: cycles of 1755 MHz, and factors on what the units do at best (2048 multiply-adds of
  // 16 bits and 128 bytes of shared memory a cycle). Fitted to the measured times of every way to
  // run 150 bf16 problems, so as to lose least by the choice; what is lost there and on 150 others:
  // bench/results/h200_planner.json. The segments' terms are from an earlier fit.
  double start = 3620;                      // launch, the first bytes' way, the end
  static constexpr double CLUSTER = 391;    // its blocks begin and end together
  static constexpr double COUPLED = 0.033;  // of a step: they wait for each other at each
  double tensor = 0.891;                    // and more, when all multiprocessors work at once:
  double slowdown = H200_SLOWDOWN;          // by power, which slows shared memory as well
  static constexpr double SHARED = 1.13;
  static constexpr double LONE = 223;     // the shortest step of a tile with one consumer
  static constexpr double ARRIVE = 1.43;  // 128 bytes reach their multiprocessor
  static constexpr double ROUNDING = 2;   // of a row, where it is rounded to tf32 on its way
  // A row of 128 bytes leaves L2 while the whole chip reads: in one line; more if in two; more if
  // it begins off L2's sectors of 32 bytes. Reads by multicast cost nothing here. The first read of
  // a round costs FIRST_READ more of these; the row's readers share that.
  double line = 0.0642, two_lines = 1.57, off_sectors = 0.862;
  static constexpr double FIRST_READ = 2.47;
  static constexpr double NARROW = 1.48, NARROWEST = 2.19;  // boxes of TMA 64 and 32 bytes wide
  // A cycle, of the chip. What several clusters read without multicast crosses between L2's halves.
  double dram_bytes = 3800;
  static constexpr double CROSSING = 0.723;
  // Nothing is faster than memory: of its bandwidth this rung gets so much, by C's rows or columns.
  // Below that the order of the tiles is kept, so little apart.
  double clock_hz = 1755e6;
  static constexpr double BELOW_DRAM = 0.05;
  static constexpr double dram_share(double few) { return few <= 32 ? 0.63 : 0.8; }
  static constexpr double STORE = 13;              // for each element of a thread
  static constexpr double STORE_TWO_LINES = 1.45;  // more, for rows of C that lie in two lines
  static constexpr double SLICE = 0.25, ROWS_SLICE = 0.5;  // more, for slices of half the width
  static constexpr double HIDDEN_STORE = 0.383;            // of a store behind another's products
  static constexpr double GAPS = 0.0571;  // of all but the first round, with no other tile to fill
  double flush = 4.38, hidden_flush = 4.14;  // totals to and from L2
  double sum_kernel = 3410, sum_cycles_a_byte = 0.31e-3;
  double repack_kernel = 2000, repack_cycles_a_byte = 0.9e-3;  // of the copy
  // More, for blocks without a cluster where operands beyond the size of L2 were copied just
  // before: the copies are on their way to DRAM still, and are read from there again.
  static constexpr double ALONE_AFTER_REPACK = 0.08;
  double l2_bytes = 4e7;

  // Products take as long as the tensor cores' rate says, reads of L2 and DRAM what each
  // multiprocessor has of theirs, launches a time of their own; shared memory, and how blocks wait
  // for each other, are the same on every chip.
  explicit HopperModel(const DeviceInfo& device);
};

}  // namespace tiled
