// The model of rung async_mma: what a step wants of each unit of a multiprocessor, how many steps
// follow one another, and what memory takes beside them.
#include "cuda/rungs/10_async_mma/model.h"

#include <algorithm>
#include <cmath>

#include "cuda/plan/sums.h"

namespace tiled {
namespace {

// The model's constants, in cycles of the chip's highest clock. A step of a block wants three units
// of its multiprocessor at once: tensor cores, shared memory, which gives a warp its fragments of
// both operands and takes the copies, and what the L2 cache sends. None waits for another for long,
// but they do not overlap without loss: the cube root of the sum of cubes has the times that
// bench/results/h200_async_mma_prototype.txt lists within 5 % (root mean square) from rates alone.
// On other chips the rates are those that are published, and the rest is the H200's.
struct Model {
  // Launch and end. The rungs that take bytes besides leave it out (plan/candidate.h).
  static constexpr double START = 3400;
  // Of a block: the first bytes' way, and the store of its tile's elements.
  static constexpr double FILL = 2500, STORE = 0.09;
  static constexpr double OF_WGMMA = 0.625;  // of 9.0's rate mma.sync can have so much
  // Bytes a cycle of a multiprocessor. Shared memory: 32 banks of four bytes from 8.0 on
  // (Programming Guide, "Shared Memory"), which doubles 7.5's (GA102 white paper). From L2 the
  // H200's: of others none is published but GA100's, 5120 for 108 multiprocessors; and T4's as Jia,
  // Maggioni, Smith and Scarpazza have measured it (arXiv 1903.07486), 1.27 TB/s.
  static constexpr double SHARED = 128, SHARED_OF_7_5 = 64, L2 = 48, L2_OF_7_5 = 20;
  // Of a step, if its block is alone: loads and barrier; and through registers, or in many copies.
  static constexpr double LATENCY = 80, LATENCY_OF_ANY = 760;
  // And at least, for each part of 32 bytes of k: its fragments' way and the chain of products; and
  // of what a warp issues meanwhile, shared among the warps.
  static constexpr double PART = 68, PART_OF_A_WARP = 8;
  static constexpr double DRAM = 0.85;  // of the bandwidth that the device names
  static constexpr double COPY_KERNEL = 10000, COPY_DRAM = 0.8;  // of the bandwidth
  // Of a multiprocessor, for 16 bytes that do not come by one cp.async: its instructions.
  static constexpr double sixteen_bytes(ReadBy by, double element_bytes,
                                        const AsyncMmaTileInfo& tile) {
    switch (by) {
      // Held in registers: a warp's 25 instructions for 32 of them, by four schedulers (counted).
      case ReadBy::Sixteen: return tile.of_7_5 ? 0.2 : tile.any ? 0.5 : 0;
      case ReadBy::Eight: return 1.5;
      case ReadBy::Four: return element_bytes == 2 ? 2.9 : 1.8;
      case ReadBy::Turned: return 1.9;
      case ReadBy::Shifted: return 1.8;
      case ReadBy::Elements: return 11.8 / element_bytes;
    }
    return 0;
  }
};

// Of one step of one block, cycles.
struct StepTimes {
  double tensor, shared, l2, instructions;
  double all() const {
    return std::cbrt(tensor * tensor * tensor + shared * shared * shared + l2 * l2 * l2) +
           instructions;
  }
  const char* bound() const {
    const double most = std::max({tensor, shared, l2, instructions});
    return most == tensor   ? "tensor cores"
           : most == shared ? "shared memory"
           : most == l2     ? "L2"
                            : "instructions of copies";
  }
};

StepTimes step_times(const Problem& problem, const DeviceInfo& device, const AsyncMmaWay& way) {
  const AsyncMmaTileInfo& tile = async_mma_tile(way.tile);
  const double m = tile.block_m, n = tile.block_n;
  const double size = static_cast<double>(size_of(problem.dtype));
  const double rate = peak_flops(device, problem.dtype, problem.arithmetic) /
                      (2 * device.clock_hz * device.multiprocessors) *
                      (device.capability == 90 ? Model::OF_WGMMA : 1);  // multiply-adds a cycle
  StepTimes t;
  t.tensor = m * n * tile.step_bytes / size / rate;
  // Every warp reads its rows and its columns; all of both are written once.
  const double read = m * n / tile.warp_n + m * n / tile.warp_m, written = m + n;
  t.shared =
      (read + written) * tile.step_bytes / (tile.of_7_5 ? Model::SHARED_OF_7_5 : Model::SHARED);
  t.l2 = (m + n) * tile.step_bytes / (tile.of_7_5 ? Model::L2_OF_7_5 : Model::L2);
  t.instructions =
      tile.step_bytes / 16. *
      (m * Model::sixteen_bytes(way.a, size, tile) + n * Model::sixteen_bytes(way.b, size, tile));
  return t;
}

}  // namespace

AsyncMmaEstimate async_mma_estimate(const Problem& problem, const DeviceInfo& device,
                                    const AsyncMmaWay& way) {
  const AsyncMmaTileInfo& tile = async_mma_tile(way.tile);
  const double m = static_cast<double>(way.exchanged ? problem.n : problem.m);
  const double n = static_cast<double>(way.exchanged ? problem.m : problem.n);
  const double k = static_cast<double>(problem.k), batch = static_cast<double>(problem.batch);
  const double size = static_cast<double>(size_of(problem.dtype));
  const double turns =
      batch * (way.shares_segments ? static_cast<double>(segment_count(problem.k)) : 1);
  const double blocks = std::ceil(m / tile.block_m) * std::ceil(n / tile.block_n) * turns;
  const double share = std::ceil(blocks / device.multiprocessors);
  const double fit = static_cast<double>(device.shared_bytes_per_sm /
                                         (tile.shared_bytes + device.shared_bytes_reserved));
  const double waves = std::ceil(share / std::clamp(fit, 1., double(tile.blocks_per_sm)));
  const double depth = way.shares_segments ? static_cast<double>(segment_size(problem.k)) : k;
  const double steps = std::ceil(depth * size / tile.step_bytes);
  const StepTimes times = step_times(problem, device, way);
  const double step = times.all();
  const double chain =
      tile.step_bytes / 32. * (Model::PART + Model::PART_OF_A_WARP * 32 / tile.threads);
  const double alone = std::max(step + (tile.any ? Model::LATENCY_OF_ANY : Model::LATENCY), chain);
  AsyncMmaEstimate e;
  e.product = steps * std::max(share * step, waves * alone) +
              waves * (Model::FILL + Model::STORE * tile.block_m * tile.block_n);
  const double c_size = static_cast<double>(size_of(problem.epilogue.out_dtype));
  const double bytes = batch * (size * (m * k + k * n) + c_size * m * n);
  e.memory = bytes / (Model::DRAM * device.memory_bandwidth) * device.clock_hz;
  e.bound = e.memory > e.product ? "memory" : times.bound();
  e.cycles = (is_byte(problem) ? 0 : Model::START) + std::max(e.product, e.memory);
  if (way.shares_segments) e.cycles += sums_seconds(problem, device) * device.clock_hz;
  if (way.copy_a || way.copy_b) {
    const double copied =
        static_cast<double>(async_mma_layout(problem, way, nullptr).copies.bytes());
    e.cycles += Model::COPY_KERNEL +
                2 * copied / (Model::COPY_DRAM * device.memory_bandwidth) * device.clock_hz;
  }
  return e;
}

}  // namespace tiled
