// Rung 3, register_tile, for fp32 where tiles do not divide among the blocks that run at once:
// tiles are cut in time (parts/wrap_around.h), so that no block has a tile more than another. The
// chains are those of register_tile_async.cu. Where a tile is cut, its accumulators, exact in fp32,
// go from one block to the next through memory:
//
//     block b      first part of a tile, accumulators, flag -> whole tiles -> ...
//                                               |
//     block b + 1  first part, ... -> whole tiles -> accumulators, rest of b's tile, C
//
// Nobody waits for long, and nobody for ever, in whatever order blocks start and whatever runs
// beside them: a block's number is the ticket that it draws as it begins, so the block before it
// has begun too, and what it hands over is the first thing that it does, which waits for nothing.
//
// Preconditions: those of register_tile_async; one entry of a batch, one segment of K; more tiles
// than blocks; the ticket and the flags are zero.
// Bound by: the FMA units, as without cuts; a block stores and loads one tile of accumulators more.
// Of cuBLAS: 104 % in the geometric mean of 38 sizes on an H200, 96 % with whole tiles alone
// (bench/results/h200_cut_tiles.txt).
// Next: rung mma_tile, whose multiply-adds are the tensor cores'.
#include <cuda/atomic>

#include "cuda/parts/fault.cuh"
#include "cuda/parts/raster.cuh"
#include "cuda/rungs/3_register_tile/async_chain.cuh"
#include "cuda/rungs/3_register_tile/kernels.h"
#include "cuda/rungs/3_register_tile/tiles.h"

namespace tiled {
namespace {

using Word = cuda::atomic_ref<uint32_t, cuda::thread_scope_device>;

// A block's accumulators in the workspace: [vector][thread] of 16 bytes.
template <typename Tile>
__device__ __forceinline__ float4* handed_over(const WrappedArguments& args, uint32_t block) {
  constexpr int VECTORS = Tile::THREAD_M * Tile::THREAD_N / 4;
  return static_cast<float4*>(args.accumulators) + int64_t{block} * VECTORS * Tile::THREADS +
         threadIdx.x;
}

constexpr bool IS_LATE =
    FAULT == Fault::Delays || FAULT == Fault::NoHandOverWait || FAULT == Fault::NoClear;

template <typename Tile, int COUNT>
__device__ __forceinline__ void hand_over(const WrappedArguments& args, uint32_t block,
                                          const float (&chain)[COUNT]) {
  // Late on purpose: else the next block has so much else to do that nobody would miss its wait.
  if constexpr (IS_LATE) __nanosleep(1000000);
  if (FAULT == Fault::NoHandOverBarrier && threadIdx.x >= 32) __nanosleep(1000000);
  float4* const to = handed_over<Tile>(args, block);
#pragma unroll
  for (int v = 0; v < COUNT / 4; ++v)
    to[v * Tile::THREADS] =
        make_float4(chain[4 * v], chain[4 * v + 1], chain[4 * v + 2], chain[4 * v + 3]);
  if constexpr (FAULT != Fault::NoHandOverBarrier)
    __syncthreads();  // what all threads have written the flag makes seen
  if (threadIdx.x == 0) Word(args.flags[block]).store(1, cuda::memory_order_release);
}

template <typename Tile, int COUNT>
__device__ __forceinline__ void take_over(const WrappedArguments& args, uint32_t from,
                                          float (&chain)[COUNT]) {
  if (FAULT != Fault::NoHandOverWait && threadIdx.x == 0)
    while (Word(args.flags[from]).load(cuda::memory_order_acquire) == 0) __nanosleep(100);
  __syncthreads();
  const float4* const at = handed_over<Tile>(args, from);
#pragma unroll
  for (int v = 0; v < COUNT / 4; ++v) {
    const float4 four = __ldcg(at + v * Tile::THREADS);
    chain[4 * v] = four.x, chain[4 * v + 1] = four.y;
    chain[4 * v + 2] = four.z, chain[4 * v + 3] = four.w;
  }
}

__global__ void clear_words(const __grid_constant__ WrappedArguments args) {
  for (uint32_t i = threadIdx.x; i < args.wrap.clusters; i += blockDim.x)
    if (FAULT != Fault::NoClear) args.flags[i] = 0;
  if (threadIdx.x == 0) *args.ticket = 0;
}

}  // namespace

template <typename Tile, Access ACCESS_A, Access ACCESS_B>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    register_tile_wrapped(const __grid_constant__ WrappedArguments args) {
  const Problem& problem = args.problem;
  __shared__ alignas(16) char shared[Tile::SHARED_BYTES];
  __shared__ uint32_t number;
  if (threadIdx.x == 0) number = Word(*args.ticket).fetch_add(1, cuda::memory_order_relaxed);
  __syncthreads();
  const PatchOf<Tile> patch;
  const uint32_t turns = args.wrap.share(number).turns;
#pragma unroll 1
  for (uint32_t i = 0; i < turns; ++i) {
    const WrapAround::Turn turn = args.wrap.turn(number, args.wrap.share(number), i);
    int64_t tile_m, tile_n;
    tile_of_block<ASYNC_RASTER_GROUP>(turn.tile, (problem.m + Tile::BLOCK_M - 1) / Tile::BLOCK_M,
                                      (problem.n + Tile::BLOCK_N - 1) / Tile::BLOCK_N, tile_m,
                                      tile_n);
    // In 32 bits, as in register_tile_async.cu.
    const int tile_row = static_cast<int>(tile_m), tile_column = static_cast<int>(tile_n);
    const auto row0 = [=] { return int64_t{tile_row} * Tile::BLOCK_M; };
    const auto column0 = [=] { return int64_t{tile_column} * Tile::BLOCK_N; };
    const bool is_last = turn.last == args.wrap.steps;

    float chain[Tile::THREAD_M][Tile::THREAD_N];
    if (turn.first == 0)
      clear(chain);
    else
      take_over<Tile>(args, number - 1, in_a_row(chain));
    const int64_t begin = int64_t{turn.first} * Tile::BLOCK_K;
    const int64_t end = is_last ? problem.k : int64_t{turn.last} * Tile::BLOCK_K;
    multiply_stretch<Tile, ACCESS_A, ACCESS_B>(
        problem, shared,
        static_cast<const float*>(problem.a.data) + row0() * problem.a.row_stride +
            begin * problem.a.col_stride,
        static_cast<const float*>(problem.b.data) + column0() * problem.b.col_stride +
            begin * problem.b.row_stride,
        row0(), column0(), static_cast<int>(end - begin), patch, chain);
    if (is_last) {
      add_segment<Tile::THREADS>(nullptr, in_a_row(chain), 0, 1);
      store_tile<Tile>(problem, 0, row0(), column0(), patch, chain);
    } else {
      hand_over<Tile>(args, number, in_a_row(chain));
    }
  }
}

Kernel<WrappedArguments> register_tile_wrapped_kernel(const RegisterTileWay& way) {
  const auto pick = [&](auto tile) -> Kernel<WrappedArguments> {
    using Tile = decltype(tile);
    constexpr Access MN = Access::AlongMN, ANY = Access::Elements;
    if (way.access.a == MN && way.access.b == MN) return &register_tile_wrapped<Tile, MN, MN>;
    if (way.access.a == MN) return &register_tile_wrapped<Tile, MN, ANY>;
    if (way.access.b == MN) return &register_tile_wrapped<Tile, ANY, MN>;
    return &register_tile_wrapped<Tile, ANY, ANY>;
  };
  return way.tile == TileSize::Large ? pick(AsyncTiles::Large{}) : pick(AsyncTiles::Medium{});
}

Kernel<WrappedArguments> clear_words_kernel() { return &clear_words; }

}  // namespace tiled
