// Which tile of which group a block of hopper works on (group_scan.cuh). The grid is persistent, as
// hopper_schedule.cuh's, and no block asks another.
#pragma once

#include "cuda/parts/schedule/group_scan.cuh"
#include "cuda/parts/schedule/hopper_schedule.cuh"

namespace tiled {

// The step of a unit whose stage a group's K fills in part, and how much of it, elements.
struct Tail {
  int step = -1, left = 0;  // none
};

struct GroupedUnit : Unit {
  int p_end, q_end;  // where the group ends, or C
  int group_begin;   // where it begins, of the shared size
  int k, k_size;     // where the group's K begins, and how long it is, elements
  Tail tail;
  bool is_blank;  // no group's
};

// SPACED: where groups share out K, each begins a step of the operands' copies (repack_layout.h).
template <typename Schedule, typename Tile, int BLOCK_K, bool SPACED>
class GroupedTurns {
 public:
  static constexpr bool STREAM_K = false;
  uint32_t first, end, stride;

  // By whole warps, after the ends have been written; so is at().
  __device__ __forceinline__ explicit GroupedTurns(const Schedule& schedule)
      : first(schedule.first),
        stride(schedule.stride),
        args_(schedule.args),
        rank_(schedule.rank),
        scan_(args_.groups, args_.batch, size(), !shares_k(), ClustersOf{args_}) {
    end = scan_.total();
  }

  // Consumers in turn look back by a tile. A group's tiles go down a panel's columns, as others'.
  __device__ __forceinline__ GroupedUnit at(uint32_t index) const {
    const auto [group, begin, end, tile] = scan_.at(index);
    const ClustersOf clusters = {args_};
    const int rows = end - begin;
    const uint32_t height = args_.by_height.value, high = clusters.p(rows);
    const uint32_t panel = tile / (height * clusters.q(rows));
    const uint32_t within = tile - panel * height * clusters.q(rows);
    const uint32_t panel_height = min(height, high - panel * height);
    const uint32_t cluster_q = within / panel_height;
    const uint32_t cluster_p = panel * height + within - cluster_q * panel_height;
    GroupedUnit result;
    result.p = (cluster_p * args_.cluster_p + (args_.cluster_p == 1 ? 0 : rank_)) * Tile::BLOCK_P;
    result.q = (cluster_q * args_.cluster_q + (args_.cluster_q == 1 ? 0 : rank_)) * Tile::BLOCK_Q;
    result.p_end = args_.p, result.q_end = args_.q, result.group_begin = begin;
    result.k = 0, result.k_size = args_.k;
    if (args_.groups_of_p)
      result.p += begin, result.p_end = end;
    else if (args_.groups_of_q)
      result.q += begin, result.q_end = end;
    else
      result.k = SPACED ? (begin / BLOCK_K + group) * BLOCK_K : begin, result.k_size = rows;
    const int k_size = result.k_size;
    // The end of all K is the matrices', which TMA knows.
    if (shares_k() && k_size % BLOCK_K != 0) result.tail = {k_size / BLOCK_K, k_size % BLOCK_K};
    result.is_blank = group >= args_.batch;
    result.batch = min(group, args_.batch - 1), result.segment = 0;
    result.first = 0;
    result.last = result.is_blank ? 0 : ClustersOf::ceil_of(k_size, BLOCK_K);
    result.piece_steps = static_cast<int>(segment_steps<BLOCK_K>(k_size));
    // One without products too, which stores zeros.
    result.pieces = result.is_blank ? 1 : max(1, static_cast<int>(segment_count(k_size)));
    return result;
  }

 private:
  // Tiles of a cluster along P and Q of a group that has so much of the shared size.
  struct ClustersOf {
    const HopperArguments& args;
    __device__ __forceinline__ int p(int rows) const {
      return args.groups_of_p ? ceil_of(rows, Tile::BLOCK_P * args.cluster_p) : args.clusters_p;
    }
    __device__ __forceinline__ int q(int rows) const {
      return args.groups_of_q ? ceil_of(rows, Tile::BLOCK_Q * args.cluster_q) : args.clusters_q;
    }
    __device__ __forceinline__ uint32_t operator()(int begin, int end) const {
      return static_cast<uint32_t>(p(end - begin)) * q(end - begin);
    }
    static __device__ __forceinline__ int ceil_of(int size, int step) {
      return static_cast<int>((static_cast<uint32_t>(size) + step - 1) / step);
    }
  };

  const HopperArguments& args_;
  uint32_t rank_;
  mutable GroupScan<ClustersOf> scan_;

  __device__ __forceinline__ bool shares_k() const {
    return !args_.groups_of_p && !args_.groups_of_q;
  }
  __device__ __forceinline__ int size() const {
    return args_.groups_of_p ? args_.p : args_.groups_of_q ? args_.q : args_.k;
  }
};

}  // namespace tiled
