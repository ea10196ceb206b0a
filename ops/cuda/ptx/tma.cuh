// TMA, the copy engine between global and shared memory: boxes of a tensor that a tensor map
// describes (PTX ISA, "cp.async.bulk.tensor"). One thread issues a copy. What is outside the
// tensor is read as zero and not written. Coordinates count elements, innermost dimension first.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/ptx/mbarrier.cuh"

namespace tiled::ptx {

__device__ __forceinline__ void prefetch_tensormap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<uint64_t>(map)) : "memory");
}

// A box to shared memory; `barrier` counts its bytes.
__device__ __forceinline__ void tma_load(uint32_t shared, const CUtensorMap* map, int32_t x,
                                         int32_t y, int32_t z, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared),
      "l"(reinterpret_cast<uint64_t>(map)), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}

// The same box to the same place in every block of the cluster whose bit is set in `blocks`; each
// counts the bytes at its own barrier.
__device__ __forceinline__ void tma_load_multicast(uint32_t shared, const CUtensorMap* map,
                                                   int32_t x, int32_t y, int32_t z,
                                                   uint32_t barrier, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared),
      "l"(reinterpret_cast<uint64_t>(map)), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"(blocks)
      : "memory");
}

// A box from shared memory; part of the thread's current bulk group.
__device__ __forceinline__ void tma_store(const CUtensorMap* map, uint32_t shared, int32_t x,
                                          int32_t y, int32_t z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(
          reinterpret_cast<uint64_t>(map)),
      "r"(x), "r"(y), "r"(z), "r"(shared)
      : "memory");
}

__device__ __forceinline__ void bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Until at most PENDING of this thread's newest groups still read shared memory.
template <int PENDING>
__device__ __forceinline__ void bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// Orders this thread's ordinary accesses to shared memory before later ones by the copy engine and
// the tensor cores: what it has written is what they read, and what it reads they have not yet
// overwritten. (PTX ISA, "Async proxy". No barrier does this: in the order of the machine a load
// may come after the arrival that follows it in the program.)
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace tiled::ptx
