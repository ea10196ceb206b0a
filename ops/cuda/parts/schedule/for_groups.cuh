// Products with groups for kernels whose blocks compute tiles of a Problem: the problem is then one
// group's, made in shared memory, and the kernel's text is the one of products without groups.
#pragma once

#include "core/groups.h"
#include "cuda/parts/schedule/group_scan.cuh"

namespace tiled {

// Shared memory for a problem: the type has initialisers, which shared memory cannot have.
struct alignas(Problem) SharedProblem {
  char bytes[sizeof(Problem)];
  __device__ __forceinline__ Problem& get() { return reinterpret_cast<Problem&>(bytes); }
};

// body(problem, tile) for this block's tiles of all groups of which takes(begin, end) says so, one
// after the other, as the grid's blocks share them out: tile is its number among the
// BLOCK_M x BLOCK_N that cover the problem. Between two of them the block synchronises.
template <int BLOCK_M, int BLOCK_N, typename Body, typename Takes>
__device__ __forceinline__ void for_tiles_of_groups(const Problem& all, Body body, Takes takes) {
  static __shared__ SharedProblem place;
  Problem& problem = place.get();
  static __shared__ int64_t number;  // below 0: there are no more
  const Shared shared = all.groups.shared;
  const auto tiles_of = [&](int begin, int end) -> uint32_t {
    if (!takes(begin, end)) return 0;
    const int64_t size = end - begin;
    const int64_t m = shared == Shared::M ? size : all.m, n = shared == Shared::N ? size : all.n;
    return static_cast<uint32_t>((m + BLOCK_M - 1) / BLOCK_M * ((n + BLOCK_N - 1) / BLOCK_N));
  };
  const int64_t size = shared == Shared::M ? all.m : shared == Shared::N ? all.n : all.k;
  const int count = static_cast<int>(all.batch);
  GroupScan scan(all.groups, count, static_cast<int>(size), shared != Shared::K, tiles_of);
  for (uint32_t index = blockIdx.x;; index += gridDim.x) {
    if (threadIdx.x < 32) {
      const GroupTile tile = scan.at(index);
      if (threadIdx.x == 0) {
        number = tile.group > count ? -1 : static_cast<int64_t>(tile.number);
        problem = tile.group < count ? problem_of_group(all, tile.group, tile.begin, tile.end)
                                     : problem_behind_groups(all, tile.begin);
      }
    }
    __syncthreads();
    if (number < 0) return;
    body(problem, number);
    __syncthreads();  // before the next problem takes its place
  }
}

template <int BLOCK_M, int BLOCK_N, typename Body>
__device__ __forceinline__ void for_tiles_of_groups(const Problem& all, Body body) {
  for_tiles_of_groups<BLOCK_M, BLOCK_N>(all, body, [](int, int) { return true; });
}

}  // namespace tiled
