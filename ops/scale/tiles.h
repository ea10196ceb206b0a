// Which device computes which tile of C, where several share them out.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "scale/plan.h"

namespace tiled::scale {

// Hands out every tile of a plan once. A device has a run of tiles to itself, in the plan's order,
// so that what it holds serves the next one too: at first a group that no device has begun, and
// where there is none, the later half of the longest run that is left. So a slow device, or one
// that has failed, delays only the tiles that it has taken. Calls may come from any thread.
class Tiles {
 public:
  Tiles(const Plan& plan, int64_t devices);

  // The index (tile_at) of this device's next tile; empty once all tiles are handed out.
  std::optional<int64_t> take(int64_t device);

 private:
  struct Run {
    int64_t next, end;
    int64_t device;  // -1: none has it yet
  };

  Run* run_for(int64_t device);

  const Plan plan_;
  std::mutex mutex_;
  std::vector<Run> runs_;
};

}  // namespace tiled::scale
