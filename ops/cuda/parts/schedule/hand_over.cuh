// In stream-K (stream_k.h) the accumulators of a tile that is handed over, exact as they are, go
// from one block to the next through memory:
//
//     block b      first part of a tile, accumulators, flag -> whole tiles -> ...
//                                               |
//     block b + 1  first part, ... -> whole tiles -> accumulators, rest of b's tile, C
//
// No block waits for long, and none for ever, in whatever order blocks start and whatever else runs
// on the GPU: a block's number is the ticket that it draws as it begins, so the block before it
// has begun too, and waits for nothing before it has handed over.
//
// Accumulators go by groups of threads, of the whole block or of a warp: thread i of a group hands
// over to thread i of the other block's. A block has one flag (that of warps: stream_k_turns.cuh).
#pragma once

#include <cuda/atomic>

#include "cuda/parts/launch/fault.cuh"
#include "cuda/plan/hand_over.h"
#include "cuda/ptx/ld_global.cuh"

namespace tiled {

using HandOverWord = cuda::atomic_ref<uint32_t, cuda::thread_scope_device>;

// By one thread of a block, or of a cluster.
__device__ __forceinline__ uint32_t draw_number(const HandOver& args) {
  return HandOverWord(*args.ticket).fetch_add(1, cuda::memory_order_relaxed);
}

constexpr bool HANDS_OVER_LATE = FAULT == Fault::Delays || FAULT == Fault::NoHandOverWait ||
                                 FAULT == Fault::NoHandOverBarrier || FAULT == Fault::NoClear;

template <int THREADS>
__device__ __forceinline__ void synchronise_group() {
  if constexpr (THREADS == 32)
    __syncwarp();
  else
    __syncthreads();
}

// A thread's accumulators in sixteens of bytes, which are THREADS apart.
template <typename T>
struct alignas(16) HandOverVector {
  static constexpr int LENGTH = 16 / sizeof(T);
  T of[LENGTH];
};
template <int THREADS, typename T, int COUNT>
__device__ __forceinline__ float4* handed_over(const HandOver& args, uint32_t group,
                                               const T (&)[COUNT]) {
  constexpr int VECTORS = COUNT / HandOverVector<T>::LENGTH;
  static_assert(VECTORS * HandOverVector<T>::LENGTH == COUNT);
  return static_cast<float4*>(args.accumulators) + int64_t{group} * VECTORS * THREADS +
         threadIdx.x % THREADS;
}

// Threads that see the flag of group `group` see what it wrote before. By one thread.
__device__ __forceinline__ void raise_flag(const HandOver& args, uint32_t group) {
  HandOverWord(args.flags[group]).store(1, cuda::memory_order_release);
}
__device__ __forceinline__ void await_flag(const HandOver& args, uint32_t from) {
  if constexpr (FAULT != Fault::NoHandOverWait)
    while (HandOverWord(args.flags[from]).load(cuda::memory_order_acquire) == 0) __nanosleep(100);
}

template <int THREADS, typename T, int COUNT>
__device__ __forceinline__ void write_accumulators(const HandOver& args, uint32_t group,
                                                   const T (&chain)[COUNT]) {
  constexpr int LENGTH = HandOverVector<T>::LENGTH;
  // Late on purpose: else the next block has so much else to do that no test would miss its wait.
  if constexpr (HANDS_OVER_LATE) __nanosleep(1000000);
  float4* const to = handed_over<THREADS>(args, group, chain);
#pragma unroll
  for (int v = 0; v < COUNT / LENGTH; ++v) {
    HandOverVector<T> vector;
#pragma unroll
    for (int i = 0; i < LENGTH; ++i) vector.of[i] = chain[v * LENGTH + i];
    to[v * THREADS] = reinterpret_cast<const float4&>(vector);
  }
  synchronise_group<THREADS>();  // what all threads have written the flag makes seen
}

template <int THREADS, typename T, int COUNT>
__device__ __forceinline__ void hand_over(const HandOver& args, uint32_t group,
                                          const T (&chain)[COUNT]) {
  const bool raises = threadIdx.x % THREADS == 0;
  if constexpr (FAULT == Fault::NoHandOverBarrier)
    if (raises) raise_flag(args, group);
  write_accumulators<THREADS>(args, group, chain);
  if constexpr (FAULT != Fault::NoHandOverBarrier)
    if (raises) raise_flag(args, group);
}

template <int THREADS>
__device__ __forceinline__ void await_hand_over(const HandOver& args, uint32_t from) {
  if (threadIdx.x % THREADS == 0) await_flag(args, from);
  synchronise_group<THREADS>();
}

// load(v): the 16 bytes of vector v.
template <typename T, int COUNT, typename Load>
__device__ __forceinline__ void go_on_from(T (&chain)[COUNT], Load load) {
  constexpr int LENGTH = HandOverVector<T>::LENGTH;
#pragma unroll
  for (int v = 0; v < COUNT / LENGTH; ++v) {
    const auto sixteen = load(v);
    static_assert(sizeof(sixteen) == 16);
    const auto& vector = reinterpret_cast<const HandOverVector<T>&>(sixteen);
#pragma unroll
    for (int i = 0; i < LENGTH; ++i) chain[v * LENGTH + i] = vector.of[i];
  }
}

template <int THREADS, typename T, int COUNT>
__device__ __forceinline__ void take_over(const HandOver& args, uint32_t from, T (&chain)[COUNT]) {
  await_hand_over<THREADS>(args, from);
  const float4* const at = handed_over<THREADS>(args, from, chain);
  go_on_from(chain, [&](int v) { return __ldcg(at + v * THREADS); });
}

// From where they are, if the chain `resumes`; else zeros. There is no branch around the loads:
// where accumulators come from two branches, ptxas has wgmma wait for each one.
template <int THREADS, int COUNT>
__device__ __forceinline__ void read_accumulators_or_clear(const HandOver& args, bool resumes,
                                                           uint32_t from, float (&chain)[COUNT]) {
  const float4* const at = handed_over<THREADS>(args, from, chain);
  go_on_from(chain, [&](int v) { return ptx::load_global_or_zero(at + v * THREADS, resumes); });
}

}  // namespace tiled
