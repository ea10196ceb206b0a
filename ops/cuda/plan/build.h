// The device as a build sees the one that it runs on, as far as the planner is concerned. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cuda/plan/device.h"

namespace tiled {

struct Build {
  std::string_view mma_architectures;  // that mma.sync's kernels are compiled for, as "8.0 9.0+PTX"
  std::string_view by_8_architectures;  // and those of it that are 7.5's
  bool hopper;                          // whether it has Hopper's kernels
};

// The device without the kernels that the build has none of for it.
DeviceInfo as_built(DeviceInfo device, const Build& build);

// For tests, TILED_MM_PLAN_AS: the named device in place of the one that runs, as built, so that
// its plans are made and run. None of theirs may need a kernel or a limit that the running one does
// not have; else there is no value, and `refusal` says why.
std::optional<DeviceInfo> planned_as(std::string_view name, const DeviceInfo& running,
                                     const Build& build, std::string& refusal);

}  // namespace tiled
