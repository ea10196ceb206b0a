// mbarrier: a barrier in shared memory that counts arrivals of threads and bytes of asynchronous
// copies; one phase ends when both counts are complete (PTX ISA, "Parallel Synchronization and
// Communication Instructions: mbarrier"). Addresses are bytes of the shared window; a barrier takes
// eight.
#pragma once

#include <cstdint>

namespace tiled::ptx {

// The address of shared memory as instructions want it.
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes the initialisation visible to the cluster and to the copy engine.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and makes the phase wait for so many bytes more.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Where the barrier at the same place in block `rank` of the cluster stands, for arrivals from
// here.
__device__ __forceinline__ uint32_t cluster_address(uint32_t barrier, uint32_t rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(barrier), "r"(rank));
  return address;
}

// An arrival where `arrives` says so: an instruction that is left out, and no branch.
__device__ __forceinline__ void mbarrier_arrive_if(bool arrives, uint32_t barrier) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %1, 0;\n"
      "@p mbarrier.arrive.shared::cta.b64 _, [%0];\n"
      "}" ::"r"(barrier),
      "r"(static_cast<uint32_t>(arrives))
      : "memory");
}

// The same at a barrier of the cluster (cluster_address). It orders no memory accesses for the
// barrier's block: .release.cluster would first wait for all of the thread's (an instruction
// MEMBAR.ALL.GPU, a whole microsecond on an H200). None need be. The word is that reads have ended,
// so that the waiting thread may have the stage overwritten, and they have before it is given: a
// wait_group returns when wgmma has read its operands, and what a thread loaded itself was an
// operand of a wgmma that it has waited for. Nor has it written what the waiting one reads. That is
// .relaxed.cluster, and the machine code is the same, but PTX before ISA 8.6 (CUDA 12.8) does not
// know it; without qualifiers it is .release.cta.
__device__ __forceinline__ void mbarrier_arrive_cluster_if(bool arrives, uint32_t address) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %1, 0;\n"
      "@p mbarrier.arrive.shared::cluster.b64 _, [%0];\n"
      "}" ::"r"(address),
      "r"(static_cast<uint32_t>(arrives))
      : "memory");
}

// Whether the phase of this parity has ended; may suspend the thread for a while first.
__device__ __forceinline__ bool mbarrier_try_wait(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done;
}

// The same without waiting at all.
__device__ __forceinline__ bool mbarrier_test_wait(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done;
}

__device__ __forceinline__ void mbarrier_wait(uint32_t barrier, uint32_t parity) {
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}

}  // namespace tiled::ptx
