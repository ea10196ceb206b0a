// The CPU in the part of a device, for tests: a few MiB of memory that it counts, copies by memcpy
// in threads of their own, products by tiled::mm. What the engine does wrong, it shows.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "torch/out_of_core.h"

namespace tiled {

struct CpuDeviceOptions {
  int64_t capacity;         // bytes of its memory, whatever the plan asks for
  int64_t fail_at = -1;     // the product that fails, counted from 0; none if negative
  double slow_seconds = 0;  // that each product takes longer
};

// What all such devices hold now: bytes of their memory and of staging memory, and threads.
struct CpuDevicesHold {
  std::atomic<int64_t> bytes{0}, staging_bytes{0}, threads{0};
};
CpuDevicesHold& cpu_devices_hold();

OutOfCoreTarget cpu_target(const OutOfCoreProduct& product, const OutOfCoreOptions& options,
                           const CpuDeviceOptions& device);

}  // namespace tiled
