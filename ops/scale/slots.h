// Which blocks of an operand are on the device: places that the block used longest ago gives up.
// The planner counts traffic by it and the engine moves blocks by it, so the two agree.
#pragma once

#include <cstdint>
#include <vector>

namespace tiled::scale {

class Slots {
 public:
  explicit Slots(int64_t count) : held_(count, Held{-1, -1}) {}

  struct Found {
    int64_t slot;
    bool there;  // else the block that was there has been given up, and this one is to be copied
  };

  // The place of this block from now on.
  Found take(int64_t block) {
    int64_t oldest = 0;
    for (int64_t s = 0; s < static_cast<int64_t>(held_.size()); ++s) {
      if (held_[s].block == block) {
        held_[s].used = ++clock_;
        return {s, true};
      }
      if (held_[s].used < held_[oldest].used) oldest = s;
    }
    held_[oldest] = {block, ++clock_};
    return {oldest, false};
  }

 private:
  struct Held {
    int64_t block, used;
  };
  std::vector<Held> held_;
  int64_t clock_ = 0;
};

}  // namespace tiled::scale
