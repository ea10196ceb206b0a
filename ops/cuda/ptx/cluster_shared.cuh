// Shared memory of the other blocks of a cluster (PTX ISA, "mapa", "st", "barrier.cluster").
#pragma once

#include <cstdint>

namespace tiled::ptx {

// Every thread of the cluster arrives and waits, and what they have written before is seen after.
__device__ __forceinline__ void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}

// In two halves: whoever has arrived waits before it arrives again.
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

// Where block `rank` of the cluster has what this one has at `data`, in its shared memory.
template <typename T>
__device__ __forceinline__ T* map_shared_cluster(T* data, uint32_t rank) {
  T* there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(data), "r"(rank));
  return there;
}

// To the word at the same address, in the shared window, of block `rank` of the cluster.
__device__ __forceinline__ void store_shared_cluster_u32(uint32_t address, uint32_t rank,
                                                         uint32_t v) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "st.shared::cluster.u32 [there], %2;\n"
      "}" ::"r"(address),
      "r"(rank), "r"(v)
      : "memory");
}

}  // namespace tiled::ptx
