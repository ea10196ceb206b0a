#include "cuda/plan/chip_scale.h"

#include <algorithm>
#include <cmath>

namespace tiled {
namespace {

// The H200 of bench/results: its limits as named_device("h200") has them.
struct Fitted {
  static constexpr double CLOCK = 1.98e9;  // Hz
  static constexpr double MULTIPROCESSORS = 132;
  static constexpr double BANDWIDTH = 4.8e12;  // bytes/s
  static constexpr double L2_BYTES = 60 * 1024 * 1024;
  static constexpr double TENSOR = 2048, FP64 = 64, FP64_TENSOR = 128;  // multiply-adds a cycle
  static constexpr double POWER = 700, IDLE_POWER = 90;                 // W
};

// A data sheet rounds, and a device reports its pins' rate: an H200 4.92 TB/s where the sheet has
// 4.8. Less than the models' own errors counts as none.
double beside(double value, double fitted) {
  constexpr double SMALL = 0.03;
  const double ratio = value / fitted;
  return std::abs(ratio - 1) < SMALL ? 1 : ratio;
}

}  // namespace

ChipScale scale_of(const DeviceInfo& device) {
  ChipScale scale;
  if (device.capability != 90) return scale;
  const double cycles = 2 * device.clock_hz * device.multiprocessors;
  scale.clock = beside(device.clock_hz, Fitted::CLOCK);
  scale.multiprocessors = device.multiprocessors / Fitted::MULTIPROCESSORS;
  scale.dram = beside(device.memory_bandwidth, Fitted::BANDWIDTH) / scale.clock;
  // Every 512 KiB of L2 are a slice with a port of its own.
  scale.l2 = beside(static_cast<double>(device.l2_bytes), Fitted::L2_BYTES);
  scale.fp64 = beside(device.fp64_flops / cycles, Fitted::FP64);
  // Without their kernels nobody asks.
  if (!device.hopper_kernels) return scale;
  scale.tensor = beside(device.tensor_flops / cycles, Fitted::TENSOR);
  scale.fp64_tensor = beside(device.fp64_tensor_flops / cycles, Fitted::FP64_TENSOR);
  return scale;
}

// What switches takes power in proportion to the cube of the clock, since the voltage follows it,
// and to the number of multiply-adds a cycle; the rest is what an idle chip takes.
double slowdown_of(const DeviceInfo& device) {
  const ChipScale scale = scale_of(device);
  const double watts = device.power_limit;
  const double power = watts == 0
                           ? scale.multiprocessors  // not known: as much for each multiprocessor
                           : (watts - Fitted::IDLE_POWER) / (Fitted::POWER - Fitted::IDLE_POWER);
  const double relative =
      scale.clock * std::cbrt(scale.multiprocessors * scale.tensor / std::max(power, 0.01));
  return std::max(0.0, H200_SLOWDOWN + (1 + H200_SLOWDOWN) * (relative - 1));
}

}  // namespace tiled
