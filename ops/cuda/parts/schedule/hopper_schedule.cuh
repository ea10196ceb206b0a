// Which tile a block of rung hopper works on. The grid is persistent: cluster i of G takes units
// i, i + G, i + 2 G, ... A unit is a tile of the cluster in one batch entry and, in split-K, one
// segment; units next in number are close together in C, so that those in flight
// share rows of A and columns of B in L2.
//
//     panel of 2 clusters along P:   0 2 4 6      (columns: Q)
//                                    1 3 5 7
//                                    8 ...
#pragma once

#include "core/segments.h"
#include "cuda/parts/launch/hopper_arguments.h"
#include "cuda/ptx/cluster.cuh"

namespace tiled {

struct Unit {
  int p, q;  // of the block's tile, elements
  int batch, segment;
  int first, last;  // steps of BLOCK_K that it covers: [first, last)
  int pieces;       // segments among them
  int piece_steps;  // of a whole segment
  // A piece's steps: [begin, end).
  __device__ __forceinline__ int begin(int piece) const { return first + piece * piece_steps; }
  __device__ __forceinline__ int end(int piece) const {
    return min(first + (piece + 1) * piece_steps, last);
  }
};

template <typename Tile, int BLOCK_K>
struct Schedule {
  const HopperArguments& args;
  uint32_t rank;           // of the block in its cluster
  uint32_t first, stride;  // of the cluster's units
  uint32_t count;

  __device__ __forceinline__ explicit Schedule(const HopperArguments& a) : args(a) {
    const uint32_t blocks = a.cluster_p * a.cluster_q;
    rank = blocks == 1 ? 0 : ptx::cluster_ctarank();
    first = blockIdx.x / blocks;
    stride = gridDim.x / blocks;
    count = static_cast<uint32_t>(a.clusters_p) * a.clusters_q * a.segments * a.batch;
  }

  __device__ __forceinline__ Unit at(uint32_t index) const {
    const uint32_t entry = args.by_tiles.quotient(index);
    const uint32_t tile = index - entry * args.by_tiles.value;
    const uint32_t panel = args.by_panel.quotient(tile);
    const uint32_t within = tile - panel * args.by_panel.value;
    const uint32_t first_p = panel * args.by_height.value;
    const bool is_last = first_p + args.by_height.value >= static_cast<uint32_t>(args.clusters_p);
    const Divisor& by_height = is_last ? args.by_last : args.by_height;
    const uint32_t cluster_q = by_height.quotient(within);
    const uint32_t cluster_p = first_p + within - cluster_q * by_height.value;
    Unit result;
    result.p = (cluster_p * args.cluster_p + (args.cluster_p == 1 ? 0 : rank)) * Tile::BLOCK_P;
    result.q = (cluster_q * args.cluster_q + (args.cluster_q == 1 ? 0 : rank)) * Tile::BLOCK_Q;
    result.batch = args.by_segments.quotient(entry);
    result.segment = entry - result.batch * args.segments;
    const int steps = (args.k + BLOCK_K - 1) / BLOCK_K;  // of all K
    result.piece_steps = static_cast<int>(segment_steps<BLOCK_K>(args.k));
    const bool shared_out = args.segments != 1;
    result.first = shared_out ? result.segment * result.piece_steps : 0;
    result.last = shared_out ? min(steps, result.first + result.piece_steps) : steps;
    result.pieces = shared_out ? 1 : static_cast<int>(segment_count(args.k));
    return result;
  }
};

// A cluster's units by the grid: i = first, first + stride, ... below end.
template <typename Schedule>
struct WholeTurns {
  static constexpr bool STREAM_K = false;  // no chain of K is another cluster's to go on with
  const Schedule& schedule;
  uint32_t first, end, stride;
  __device__ __forceinline__ explicit WholeTurns(const Schedule& s)
      : schedule(s), first(s.first), end(s.count), stride(s.stride) {}
  __device__ __forceinline__ Unit at(uint32_t i) const { return schedule.at(i); }
  __device__ __forceinline__ void give_back(uint32_t) const {}  // as PassedUnits'
};

// Besides filling stages, the last of the four producer warps is the hand-off warp of stream-K
// (stream_k_turns.cuh).
template <typename Turns>
__device__ __forceinline__ void run_handoff_warp(const Turns& units, int warp) {
  if constexpr (Turns::STREAM_K) {
    if (warp == 3 && ptx::elect_sync()) units.carry();
    __syncwarp();
  }
}

}  // namespace tiled
