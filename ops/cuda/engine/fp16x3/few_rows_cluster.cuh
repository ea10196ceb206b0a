// The words that blocks of a cluster tell each other in few_rows.cu, where they share out the
// chunks of the same rows of W.
#pragma once

#include "cuda/engine/fp16x3/few_rows_extent.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/cluster_shared.cuh"

namespace tiled {

// The blocks of a cluster, and this one's number. Alone, a block pays nothing for it.
template <bool SHARES>
struct Cluster {
  int count, rank;

  __device__ __forceinline__ explicit Cluster(int blocks)
      : count(blocks), rank(SHARES ? static_cast<int>(blockIdx.x % blocks) : 0) {}
  __device__ __forceinline__ int blocks() const { return SHARES ? count : 1; }
  __device__ __forceinline__ void sync() const {
    if constexpr (SHARES)
      ptx::cluster_sync();
    else
      __syncthreads();
  }
  template <typename T>
  __device__ __forceinline__ T* at(T* data, int block) const {
    return SHARES ? ptx::map_shared_cluster(data, block) : data;
  }
  // The rows of X that this block adds up: rank, rank + blocks(), ...
  __device__ __forceinline__ int share_of(int x_rows) const {
    return (x_rows - rank + blocks() - 1) / blocks();
  }
};

// The first slot of each row of X, in the block that adds them up.
template <bool SHARES>
class RowsOfTerms {
 public:
  // All threads see them after the next __syncthreads().
  __device__ __forceinline__ RowsOfTerms(Head& head, const Cluster<SHARES>& cluster, float* terms,
                                         int x_rows)
      : head_(head), terms_(terms) {
    const int x = threadIdx.x;
    if (SHARES && x < x_rows)
      head.terms[x] = cluster.at(terms + x / cluster.blocks() * PITCH, x % cluster.blocks());
  }
  __device__ __forceinline__ float* operator()(int x) const {
    return SHARES ? head_.terms[x] : terms_ + x * PITCH;
  }

 private:
  const Head& head_;
  float* const terms_;
};

// The extents of all blocks of a cluster, for threads below ROWS alone; the other threads see them
// after the next __syncthreads(). Threads below ROWS must see the block's own first.
template <bool SHARES>
__device__ __forceinline__ void exchange_extents(Head& head, const Cluster<SHARES>& cluster) {
  if (!SHARES) return;
  const int row = threadIdx.x;
  if (row < ROWS) {
    const uint2 own = make_uint2(head.most[row], head.least[row]);
    for (int b = 0; b < cluster.blocks(); ++b)
      *cluster.at(&head.extents[cluster.rank][row], b) = own;
  }
  cluster.sync();
  if (row < ROWS) {
    uint2 all = head.extents[0][row];
    for (int b = 1; b < cluster.blocks(); ++b) {
      all.x = max(all.x, head.extents[b][row].x);
      all.y = min(all.y, head.extents[b][row].y);
    }
    head.most[row] = all.x, head.least[row] = all.y;
  }
}

// The same of what is lost, which all threads see after.
template <bool SHARES>
__device__ __forceinline__ void exchange_losses(Head& head, const Cluster<SHARES>& cluster) {
  __syncthreads();
  if (!SHARES) return;
  const int row = threadIdx.x;
  if (row < ROWS)
    for (int b = 0; b < cluster.blocks(); ++b)
      *cluster.at(&head.losses[cluster.rank][row], b) = head.lost[row];
  cluster.sync();
  if (row < ROWS) {
    unsigned long long all = 0;
    for (int b = 0; b < cluster.blocks(); ++b) all += head.losses[b][row];
    head.lost[row] = all;
  }
  __syncthreads();
}

}  // namespace tiled
