// What kernels have in common whose tiles are cut in time (parts/wrap_around.h): a block's turns,
// and the accumulators' way from one block to the next.
//
//     block b      first part of a tile, accumulators, flag -> whole tiles -> ...
//                                               |
//     block b + 1  first part, ... -> whole tiles -> accumulators, rest of b's tile, C
//
// Nobody waits for long, and nobody for ever, in whatever order blocks start and whatever runs
// beside them: a block's number is the ticket that it draws as it begins, so the block before it
// has begun too, and what it hands over is the first thing that it does, which waits for nothing.
#pragma once

#include <cuda/atomic>
#include <type_traits>

#include "cuda/parts/early_start.cuh"
#include "cuda/parts/fault.cuh"
#include "cuda/parts/patch.cuh"
#include "cuda/parts/raster.cuh"
#include "cuda/parts/wrapped.h"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/shared.cuh"

namespace tiled {

using Word = cuda::atomic_ref<uint32_t, cuda::thread_scope_device>;

// Accumulators as they are handed over, 16 bytes at a time.
template <typename Acc>
struct HandedOver {
  using Vector = std::conditional_t<sizeof(Acc) == 4, float4, double2>;
  static constexpr int LENGTH = 16 / sizeof(Acc);

  static __device__ __forceinline__ Vector packed(const Acc* values) {
    if constexpr (LENGTH == 4)
      return make_float4(values[0], values[1], values[2], values[3]);
    else
      return make_double2(values[0], values[1]);
  }
  static __device__ __forceinline__ void unpack(const Vector& vector, Acc* values) {
    values[0] = vector.x, values[1] = vector.y;
    if constexpr (LENGTH == 4) values[2] = vector.z, values[3] = vector.w;
  }
  static __device__ __forceinline__ void unpack(const uint4& bits, Acc* values) {
    if constexpr (LENGTH == 4) {
      values[0] = __uint_as_float(bits.x), values[1] = __uint_as_float(bits.y);
      values[2] = __uint_as_float(bits.z), values[3] = __uint_as_float(bits.w);
    } else {
      values[0] = __hiloint2double(bits.y, bits.x), values[1] = __hiloint2double(bits.w, bits.z);
    }
  }
  // A block's, of COUNT a thread: [vector][thread].
  template <int THREADS, int COUNT>
  static __device__ __forceinline__ Vector* at(const WrappedArguments& args, uint32_t block) {
    return static_cast<Vector*>(args.accumulators) + int64_t{block} * (COUNT / LENGTH) * THREADS +
           threadIdx.x;
  }
};

constexpr bool HANDS_OVER_LATE =
    FAULT == Fault::Delays || FAULT == Fault::NoHandOverWait || FAULT == Fault::NoClear;

template <int THREADS, typename Acc, int COUNT>
__device__ __forceinline__ void hand_over(const WrappedArguments& args, uint32_t block,
                                          const Acc (&chain)[COUNT]) {
  using Handed = HandedOver<Acc>;
  // Late on purpose: else the next block has so much else to do that nobody would miss its wait.
  if constexpr (HANDS_OVER_LATE) __nanosleep(1000000);
  if (FAULT == Fault::NoHandOverBarrier && threadIdx.x >= 32) __nanosleep(1000000);
  auto* const to = Handed::template at<THREADS, COUNT>(args, block);
#pragma unroll
  for (int v = 0; v < COUNT / Handed::LENGTH; ++v)
    to[v * THREADS] = Handed::packed(chain + v * Handed::LENGTH);
  if constexpr (FAULT != Fault::NoHandOverBarrier)
    __syncthreads();  // what all threads have written the flag makes seen
  if (threadIdx.x == 0) Word(args.flags[block]).store(1, cuda::memory_order_release);
}

// `shared`: the address of SHARED_BYTES of shared memory that nobody reads. Where they hold a tile
// it comes by them: chains that begin with what is loaded from global memory the compiler would
// schedule by waiting for each instruction of a tensor core.
template <int THREADS, int SHARED_BYTES, typename Acc, int COUNT>
__device__ __forceinline__ void take_over(const WrappedArguments& args, uint32_t from,
                                          uint32_t shared, Acc (&chain)[COUNT]) {
  using Handed = HandedOver<Acc>;
  constexpr int VECTORS = COUNT / Handed::LENGTH;
  if (FAULT != Fault::NoHandOverWait && threadIdx.x == 0)
    while (Word(args.flags[from]).load(cuda::memory_order_acquire) == 0) __nanosleep(100);
  __syncthreads();
  const auto* const at = Handed::template at<THREADS, COUNT>(args, from);
  if constexpr (VECTORS * THREADS * 16 > SHARED_BYTES) {
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
      Handed::unpack(__ldcg(at + v * THREADS), chain + v * Handed::LENGTH);
  } else {
    const uint32_t own = shared + threadIdx.x * 16;
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
      ptx::cp_async_16(own + v * THREADS * 16, at + v * THREADS);
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<0>();
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
      Handed::unpack(ptx::load_shared_v4(own + v * THREADS * 16), chain + v * Handed::LENGTH);
    __syncthreads();  // before others fill it
  }
}

// All turns of a block. multiply(row0, column0, begin, end) adds the products of k in [begin, end)
// to the chain of the tile whose first row and column these are, and store(row0, column0) has it
// written to C. `shared` is the address of the Tile's shared memory, which multiply() fills and has
// read when it ends.
template <typename Tile, int64_t RASTER_GROUP, typename Chain, typename Multiply, typename Store>
__device__ __forceinline__ void run_turns(const WrappedArguments& args, uint32_t shared,
                                          Chain& chain, Multiply multiply, Store store) {
  const Problem& problem = args.problem;
  __shared__ uint32_t number;
  wait_for_kernels_before();
  if (threadIdx.x == 0) number = Word(*args.ticket).fetch_add(1, cuda::memory_order_relaxed);
  __syncthreads();
  const uint32_t turns = args.wrap.share(number).turns;
#pragma unroll 1
  for (uint32_t i = 0; i < turns; ++i) {
    const WrapAround::Turn turn = args.wrap.turn(number, args.wrap.share(number), i);
    int64_t tile_m, tile_n;
    tile_of_block<RASTER_GROUP>(turn.tile, (problem.m + Tile::BLOCK_M - 1) / Tile::BLOCK_M,
                                (problem.n + Tile::BLOCK_N - 1) / Tile::BLOCK_N, tile_m, tile_n);
    // Below 2^31: kept in 32 bits and widened at each use, the tile costs two registers less.
    const int tile_row = static_cast<int>(tile_m), tile_column = static_cast<int>(tile_n);
    const auto row0 = [=] { return int64_t{tile_row} * Tile::BLOCK_M; };
    const auto column0 = [=] { return int64_t{tile_column} * Tile::BLOCK_N; };
    const bool is_last = turn.last == args.wrap.steps;

    if (turn.first == 0)
      clear(chain);
    else
      take_over<Tile::THREADS, Tile::SHARED_BYTES>(args, number - 1, shared, in_a_row(chain));
    const int64_t begin = int64_t{turn.first} * Tile::BLOCK_K;
    multiply(row0(), column0(), begin, is_last ? problem.k : int64_t{turn.last} * Tile::BLOCK_K);
    if (is_last) {
      add_segment<Tile::THREADS>(nullptr, in_a_row(chain), 0, 1);
      store(row0(), column0());
    } else {
      hand_over<Tile::THREADS>(args, number, in_a_row(chain));
    }
  }
}

}  // namespace tiled
