// cp.async: copies from global to shared memory that pass no register (PTX ISA, "Data Movement and
// Conversion Instructions: Non-bulk copy"). `bytes` below the copy's size fills the rest with
// zeros; at 0 the global address is not read. Shared addresses are bytes of the shared window.
//
// Before compute capability 8.0 the instruction does not exist. There a load and a store do the
// same, and nothing is left to wait for: right, but slow, so the planner asks for it nowhere.
#pragma once

#include <cstdint>

namespace tiled::ptx {

// Where shared memory begins that copies of 16 bytes fill. L2 answers by sectors of 32 bytes: one
// whose halves go to different 32 bytes of shared memory is fetched twice
// (docs/decisions/030). So rows in it have pitches of multiples of 32 bytes, too.
constexpr int CP_ASYNC_ALIGNMENT = 128;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800

template <typename T>
__device__ __forceinline__ void copy_words(uint32_t shared, const void* global, int bytes) {
  T vector{};
  uint32_t* const words = reinterpret_cast<uint32_t*>(&vector);
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T) / 4); ++i)
    if (4 * i < bytes) words[i] = static_cast<const uint32_t*>(global)[i];
  *static_cast<T*>(__cvta_shared_to_generic(shared)) = vector;
}
__device__ __forceinline__ void cp_async_4(uint32_t shared, const void* global, int bytes = 4) {
  copy_words<uint32_t>(shared, global, bytes);
}
__device__ __forceinline__ void cp_async_8(uint32_t shared, const void* global, int bytes = 8) {
  copy_words<uint2>(shared, global, bytes);
}
__device__ __forceinline__ void cp_async_16(uint32_t shared, const void* global, int bytes = 16) {
  copy_words<uint4>(shared, global, bytes);
}
__device__ __forceinline__ void cp_async_commit_group() {}
template <int PENDING>
__device__ __forceinline__ void cp_async_wait_group() {}

#else

// 4 bytes, through L1.
__device__ __forceinline__ void cp_async_4(uint32_t shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(global) : "memory");
}
__device__ __forceinline__ void cp_async_4(uint32_t shared, const void* global, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global), "r"(bytes)
               : "memory");
}

// 8 bytes, through L1.
__device__ __forceinline__ void cp_async_8(uint32_t shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared), "l"(global) : "memory");
}
__device__ __forceinline__ void cp_async_8(uint32_t shared, const void* global, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared), "l"(global), "r"(bytes)
               : "memory");
}

// 16 bytes, past L1; both addresses are multiples of 16.
__device__ __forceinline__ void cp_async_16(uint32_t shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}
__device__ __forceinline__ void cp_async_16(uint32_t shared, const void* global, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
               "r"(bytes)
               : "memory");
}

// The thread's copies since the last commit become one group.
__device__ __forceinline__ void cp_async_commit_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// The thread arrives at the barrier when its copies so far have been made: one of the arrivals that
// the barrier was initialised for.
__device__ __forceinline__ void cp_async_arrive(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Waits until at most PENDING of the thread's youngest groups are under way.
template <int PENDING>
__device__ __forceinline__ void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

#endif

}  // namespace tiled::ptx
