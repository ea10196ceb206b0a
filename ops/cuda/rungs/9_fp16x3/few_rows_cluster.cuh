// What the blocks of a cluster tell each other in few_rows.cu, where they share out the chunks of
// the same rows of W.
#pragma once

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/cluster_shared.cuh"
#include "cuda/rungs/9_fp16x3/few_rows_extent.cuh"

namespace tiled {

// The blocks of a cluster, and this one's number.
struct Cluster {
  int blocks, rank;

  __device__ __forceinline__ void sync() const {
    if (blocks == 1)
      __syncthreads();
    else
      ptx::cluster_sync();
  }
  template <typename T>
  __device__ __forceinline__ T* at(T* data, int block) const {
    return blocks == 1 ? data : ptx::map_shared_cluster(data, block);
  }
  // The rows of X that this block adds up: rank, rank + blocks, ...
  __device__ __forceinline__ int share_of(int x_rows) const {
    return (x_rows - rank + blocks - 1) / blocks;
  }
};

// Of all blocks of a cluster, for threads below ROWS alone; the others see it after the next
// __syncthreads(). Before, the block's own are seen by these.
__device__ __forceinline__ void exchange_extents(Head& head, const Cluster& cluster) {
  if (cluster.blocks == 1) return;
  const int row = threadIdx.x;
  if (row < ROWS) {
    const uint2 own = make_uint2(head.most[row], head.least[row]);
    for (int b = 0; b < cluster.blocks; ++b) *cluster.at(&head.extents[cluster.rank][row], b) = own;
  }
  cluster.sync();
  if (row < ROWS) {
    uint2 all = head.extents[0][row];
    for (int b = 1; b < cluster.blocks; ++b) {
      all.x = max(all.x, head.extents[b][row].x);
      all.y = min(all.y, head.extents[b][row].y);
    }
    head.most[row] = all.x, head.least[row] = all.y;
  }
}

// The same of what is lost, which all threads see after.
__device__ __forceinline__ void exchange_losses(Head& head, const Cluster& cluster) {
  __syncthreads();
  if (cluster.blocks == 1) return;
  const int row = threadIdx.x;
  if (row < ROWS)
    for (int b = 0; b < cluster.blocks; ++b)
      *cluster.at(&head.losses[cluster.rank][row], b) = head.lost[row];
  cluster.sync();
  if (row < ROWS) {
    unsigned long long all = 0;
    for (int b = 0; b < cluster.blocks; ++b) all += head.losses[b][row];
    head.lost[row] = all;
  }
  __syncthreads();
}

}  // namespace tiled
