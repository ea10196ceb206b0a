// Thread-block clusters, and what else orders blocks, warps and kernels (PTX ISA,
// "barrier.cluster", "barrier", "griddepcontrol", "setmaxnreg").
#pragma once

#include <cstdint>

namespace tiled::ptx {

__device__ __forceinline__ uint32_t cluster_ctarank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Every thread of the cluster arrives and waits. It orders no memory accesses, which would cost
// about a microsecond on an H200; mbarriers made known by fence_mbarrier_init are seen after it.
__device__ __forceinline__ void cluster_sync_relaxed() {
  asm volatile(
      "barrier.cluster.arrive.relaxed.aligned;\n"
      "barrier.cluster.wait.aligned;" ::
          : "memory");
}

// Named barrier `id` (1 to 15; 0 is __syncthreads) among `threads` threads.
__device__ __forceinline__ void barrier_sync(int id, int threads) {
  asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// True in one lane of the warp, always the same one. Unlike lane == 0 the compiler knows that it is
// one, so that what it guards may use the warp's uniform registers.
__device__ __forceinline__ bool elect_sync() {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(elected));
  return elected;
}

// Gives registers of this warpgroup back, or takes more, so that each thread has COUNT.
template <int COUNT>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// Waits until the kernels that this launch depends on have finished and their writes are visible.
__device__ __forceinline__ void griddepcontrol_wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// Lets the kernel that depends on this one start its blocks.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace tiled::ptx
