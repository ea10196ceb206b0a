// Which tile of which group a block works on, where a tensor on the device says where groups end.
// The grid is persistent, as hopper_schedule.cuh's, and no block asks another: each finds its tiles
// by adding up how many the groups have, 32 groups at a time, a lane each.
//
//     ends     300 300 1000 | rows beyond the last end, up to T: the blank group
//     tiles      3   0    6 |  2     of 128 rows each, times those along the other size
//     numbers  0-2      3-8 | 9-10
//
// Ends below an earlier one, below 0 or beyond T are taken as the nearest that are not: a group is
// then empty or ends with T, and nothing outside of C is read or written.
#pragma once

#include "cuda/parts/hopper_schedule.cuh"

namespace tiled {

// The step of a unit whose stage a group's K fills in part, and how much of it, elements.
struct Tail {
  int step = -1, left = 0;  // none
};

struct GroupedUnit : Unit {
  int p_end, q_end;  // where the group ends, or C
  int k;             // where the group's K begins, elements
  Tail tail;
  bool is_blank;  // no group's
};

template <typename Schedule, typename Tile, int BLOCK_K>
class GroupedTurns {
 public:
  static constexpr bool CUTS = false;
  uint32_t first, end, stride;

  // By whole warps, after the ends have been written; so is at().
  __device__ __forceinline__ explicit GroupedTurns(const Schedule& schedule)
      : first(schedule.first), stride(schedule.stride), args_(schedule.args), rank_(schedule.rank) {
    Window window;
    while (window.group <= args_.batch) advance(window, tiles_of(window));
    end = window.tiles;
  }

  __device__ __forceinline__ GroupedUnit at(uint32_t index) const {
    if (index < window_.tiles) window_ = Window();  // consumers in turn look back by a tile
    for (;;) {
      const Lane lane = tiles_of(window_);
      const uint32_t mask = __ballot_sync(~0u, index < window_.tiles + lane.sum);
      if (mask != 0) return unit(lane, __ffs(static_cast<int>(mask)) - 1, index);
      advance(window_, lane);
    }
  }

 private:
  // 32 groups: the first, how many tiles are before it, and the greatest end so far.
  struct Window {
    int group = 0;
    uint32_t tiles = 0;
    int end = 0;
  };
  // A group of the window: where it begins and ends, and the tiles up to its end.
  struct Lane {
    int begin, end;
    uint32_t tiles, sum;
  };

  const HopperArguments& args_;
  uint32_t rank_;
  mutable Window window_;

  __device__ __forceinline__ int size() const {
    return args_.groups_of_p ? args_.p : args_.groups_of_q ? args_.q : args_.k;
  }

  // Tiles of a cluster along P and Q.
  __device__ __forceinline__ int clusters_p(int rows) const {
    return args_.groups_of_p ? ceil_of(rows, Tile::BLOCK_P * args_.cluster_p) : args_.clusters_p;
  }
  __device__ __forceinline__ int clusters_q(int rows) const {
    return args_.groups_of_q ? ceil_of(rows, Tile::BLOCK_Q * args_.cluster_q) : args_.clusters_q;
  }
  static __device__ __forceinline__ int ceil_of(int size, int step) {
    return static_cast<int>((static_cast<uint32_t>(size) + step - 1) / step);
  }

  // The end of group g; the blank group, which K does not have, ends with all.
  __device__ __forceinline__ int end_of(int group) const {
    if (group >= args_.batch) return size();
    const int64_t end = args_.groups.wide ? static_cast<const int64_t*>(args_.groups.ends)[group]
                                          : static_cast<const int32_t*>(args_.groups.ends)[group];
    return static_cast<int>(min(max(end, int64_t{0}), static_cast<int64_t>(size())));
  }

  __device__ __forceinline__ Lane tiles_of(const Window& window) const {
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
    const int rows = result.end - result.begin;
    const bool shares_k = !args_.groups_of_p && !args_.groups_of_q;
    const bool is_there = shares_k ? group < args_.batch : group <= args_.batch && rows > 0;
    result.tiles = is_there ? static_cast<uint32_t>(clusters_p(rows)) * clusters_q(rows) : 0;
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

  // Tile `index` of all, which is the group's of lane `source`: down a panel's columns, as others'.
  __device__ __forceinline__ GroupedUnit unit(const Lane& lane, int source, uint32_t index) const {
    const int group = window_.group + source;
    const int begin = __shfl_sync(~0u, lane.begin, source);
    const int end = __shfl_sync(~0u, lane.end, source);
    const uint32_t sum = __shfl_sync(~0u, lane.sum, source);
    const uint32_t tile = index - (window_.tiles + sum - __shfl_sync(~0u, lane.tiles, source));
    const int rows = end - begin;
    const uint32_t height = args_.by_height.value, high = clusters_p(rows);
    const uint32_t panel = tile / (height * clusters_q(rows));
    const uint32_t within = tile - panel * height * clusters_q(rows);
    const uint32_t panel_height = min(height, high - panel * height);
    const uint32_t cluster_q = within / panel_height;
    const uint32_t cluster_p = panel * height + within - cluster_q * panel_height;
    GroupedUnit result;
    result.p = (cluster_p * args_.cluster_p + (args_.cluster_p == 1 ? 0 : rank_)) * Tile::BLOCK_P;
    result.q = (cluster_q * args_.cluster_q + (args_.cluster_q == 1 ? 0 : rank_)) * Tile::BLOCK_Q;
    result.p_end = args_.p, result.q_end = args_.q;
    int k_size = args_.k;
    result.k = 0;
    if (args_.groups_of_p)
      result.p += begin, result.p_end = end;
    else if (args_.groups_of_q)
      result.q += begin, result.q_end = end;
    else
      result.k = begin, k_size = rows;
    // The end of all K is the matrices', which TMA knows.
    if (!args_.groups_of_p && !args_.groups_of_q && k_size % BLOCK_K != 0)
      result.tail = {k_size / BLOCK_K, k_size % BLOCK_K};
    result.is_blank = group >= args_.batch;
    result.batch = min(group, args_.batch - 1), result.segment = 0;
    result.first = 0;
    result.last = result.is_blank ? 0 : ceil_of(k_size, BLOCK_K);
    result.piece_steps = static_cast<int>(segment_steps(k_size, BLOCK_K));
    // One without products too, which stores zeros.
    result.pieces = result.is_blank ? 1 : max(1, static_cast<int>(segment_count(k_size)));
    return result;
  }
};

}  // namespace tiled
