// Which kernels there are for a device, in this build.
#pragma once

#include "core/arithmetic.h"
#include "cuda/plan/device.h"

namespace tiled {

inline Kernels kernels_of(const DeviceInfo& device) {
  const Mma mma = generation_of(device.capability).kernels.mma;
  return {device.hopper_kernels, device.tensor_flops > 0 ? mma : Mma::None};
}

}  // namespace tiled
