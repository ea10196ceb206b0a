// Which group tile `index` of all belongs to, where a tensor on the device says where groups end.
// No table is made: a warp adds up how many tiles groups have, 32 groups at a time, a lane each.
//
//     ends     300 300 1000 | what is behind the last end, up to `size`: group `count`
//     tiles      3   0    6 |  2     of 128 rows each, times those along the other size
//     numbers  0-2      3-8 | 9-10
//
// Ends below an earlier one, below 0 or beyond `size` are taken as the nearest that are not: a
// group is then empty or ends with `size`, so that nothing outside of the matrices is read or
// written.
#pragma once

#include <cstdint>

#include "core/problem.h"

namespace tiled {

struct GroupTile {
  int group;        // GroupScan's count: behind the groups
  int begin, end;   // its part of the shared size
  uint32_t number;  // of the tile among the group's
};

// TilesOf: tiles of a group, as a function of where its part of the shared size begins and ends.
// All of it is for whole warps.
template <typename TilesOf>
class GroupScan {
 public:
  // `has_rest`: there may be something behind the last end. Else an empty group has tiles too, as C
  // has an entry for each.
  __device__ __forceinline__ GroupScan(const Groups& groups, int count, int size, bool has_rest,
                                       TilesOf tiles_of)
      : groups_(groups), count_(count), size_(size), has_rest_(has_rest), tiles_of_(tiles_of) {}

  // Tiles of all groups.
  __device__ __forceinline__ uint32_t total() {
    Window window;
    while (window.group <= count_) advance(window, lane_of(window));
    return window.tiles;
  }

  // Tile `index`; one in the order of their numbers is found soonest. Its group is above `count`
  // where there is no such tile.
  __device__ __forceinline__ GroupTile at(uint32_t index) {
    if (index < window_.tiles) window_ = Window();
    for (;;) {
      const Lane lane = lane_of(window_);
      const uint32_t mask = __ballot_sync(~0u, index < window_.tiles + lane.sum);
      if (mask == 0) {
        if (window_.group > count_) return {count_ + 1, 0, 0, 0};
        advance(window_, lane);
        continue;
      }
      const int source = __ffs(static_cast<int>(mask)) - 1;
      const uint32_t before = lane.sum - lane.tiles;
      return {window_.group + source, __shfl_sync(~0u, lane.begin, source),
              __shfl_sync(~0u, lane.end, source),
              index - (window_.tiles + __shfl_sync(~0u, before, source))};
    }
  }

 private:
  // 32 groups: the first, how many tiles are before it, and the greatest end so far.
  struct Window {
    int group = 0;
    uint32_t tiles = 0;
    int end = 0;
  };
  // A group of the window: where it begins and ends, its tiles, and those of the window up to it.
  struct Lane {
    int begin, end;
    uint32_t tiles, sum;
  };

  const Groups& groups_;
  int count_, size_;
  bool has_rest_;
  TilesOf tiles_of_;
  Window window_;

  __device__ __forceinline__ int end_of(int group) const {
    if (group >= count_) return size_;
    const int64_t end = groups_.wide ? static_cast<const int64_t*>(groups_.ends)[group]
                                     : static_cast<const int32_t*>(groups_.ends)[group];
    return static_cast<int>(min(max(end, int64_t{0}), static_cast<int64_t>(size_)));
  }

  __device__ __forceinline__ Lane lane_of(const Window& window) const {
    const int lane = threadIdx.x % 32, group = window.group + lane;
    Lane result;
    result.end = max(end_of(group), window.end);
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = __shfl_up_sync(~0u, result.end, distance);
      if (lane >= distance) result.end = max(result.end, other);
    }
    result.begin = __shfl_up_sync(~0u, result.end, 1);
    if (lane == 0) result.begin = window.end;
    const bool is_there = has_rest_ ? group <= count_ && result.begin < result.end : group < count_;
    result.tiles = is_there ? tiles_of_(result.begin, result.end) : 0;
    result.sum = result.tiles;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const uint32_t other = __shfl_up_sync(~0u, result.sum, distance);
      if (lane >= distance) result.sum += other;
    }
    return result;
  }

  static __device__ __forceinline__ void advance(Window& window, const Lane& lane) {
    window.group += 32;
    window.tiles += __shfl_sync(~0u, lane.sum, 31);
    window.end = __shfl_sync(~0u, lane.end, 31);
  }
};

}  // namespace tiled
