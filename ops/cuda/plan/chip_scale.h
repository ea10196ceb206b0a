// The chip that the models' constants were fitted on, and what they are multiplied or divided by on
// another of its kind. Pure, as plan.h.
#pragma once

#include "cuda/plan/device.h"

namespace tiled {

// What a chip has, as a multiple of what the H200 has that the constants were fitted on. A cycle is
// one of the chip's own clock. Other capabilities than 9.0 have 1 in all: no constants
// were fitted on them, and those of 9.0 put their few ways in a good order as they are.
struct ChipScale {
  double clock = 1;            // cycles a second: of a launch, and of what waits for DRAM
  double multiprocessors = 1;  // of the chip
  double dram = 1;             // bytes a cycle, of the chip
  double l2 = 1;               // bytes a cycle, of the chip; and its size
  double tensor = 1;           // multiply-adds of 16 bits or tf32 a cycle and multiprocessor
  double fp64 = 1;             // those of fp64, by fused multiply-adds
  double fp64_tensor = 1;      // and by tensor cores

  // For one multiprocessor while all of them read.
  double l2_share() const { return l2 / multiprocessors; }
};

ChipScale scale_of(const DeviceInfo& device);

// How much longer products on tensor cores take when all multiprocessors work at once than one
// alone: the clock falls until the chip keeps its limit of power. The H200's is fitted.
constexpr double H200_SLOWDOWN = 0.305;
double slowdown_of(const DeviceInfo& device);

// How much longer they take then than on an H200 that works as much.
inline double slower_than_h200(const DeviceInfo& device) {
  return (1 + slowdown_of(device)) / (1 + H200_SLOWDOWN);
}

}  // namespace tiled
