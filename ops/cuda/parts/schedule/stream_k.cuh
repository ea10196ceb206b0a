// Stream-K kernels have these in common (plan/stream_k.h): the work items of a block, between
// which accumulators go from one block to the next (hand_over.cuh).
#pragma once

#include "cuda/parts/arithmetic/thread_tile.cuh"
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/parts/schedule/hand_over.cuh"
#include "cuda/parts/schedule/launch_stream_k.h"
#include "cuda/parts/schedule/raster.cuh"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/shared.cuh"

namespace tiled {

// take_over() by SHARED_BYTES of shared memory at the address `shared`, which no thread reads,
// where they hold a tile: chains that begin with what is loaded from global memory the compiler
// would schedule by waiting for each instruction of a tensor core.
template <int THREADS, int SHARED_BYTES, typename Acc, int COUNT>
__device__ __forceinline__ void take_over_by_shared(const HandOver& args, uint32_t from,
                                                    uint32_t shared, Acc (&chain)[COUNT]) {
  constexpr int VECTORS = COUNT * static_cast<int>(sizeof(Acc)) / 16;
  if constexpr (VECTORS * THREADS * 16 > SHARED_BYTES) {
    take_over<THREADS>(args, from, chain);
  } else {
    await_hand_over<THREADS>(args, from);
    const float4* const at = handed_over<THREADS>(args, from, chain);
    const uint32_t own = shared + threadIdx.x * 16;
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) ptx::cp_async_16(own + v * THREADS * 16, at + v * THREADS);
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<0>();
    go_on_from(chain, [&](int v) { return ptx::load_shared_v4(own + v * THREADS * 16); });
    __syncthreads();  // before others fill it
  }
}

// All turns of a block. multiply(row0, column0, begin, end) adds the products of k in [begin, end)
// to the chain of the tile whose first row and column these are, and store(row0, column0) has it
// written to C. `shared` is the address of the Tile's shared memory, which multiply() fills and has
// read when it ends.
template <typename Tile, int64_t RASTER_GROUP, typename Chain, typename Multiply, typename Store>
__device__ __forceinline__ void run_turns(const StreamKArguments& args, uint32_t shared,
                                          Chain& chain, Multiply multiply, Store store) {
  const Problem& problem = args.problem;
  __shared__ uint32_t number;
  wait_for_kernels_before();
  if (threadIdx.x == 0) number = draw_number(args.stream_k.hand_over);
  __syncthreads();
  const uint32_t turns = args.stream_k.rule.share(number).turns;
#pragma unroll 1
  for (uint32_t i = 0; i < turns; ++i) {
    const StreamK::Turn turn = args.stream_k.rule.turn(number, args.stream_k.rule.share(number), i);
    int64_t tile_m, tile_n;
    tile_of_block<RASTER_GROUP>(turn.tile, (problem.m + Tile::BLOCK_M - 1) / Tile::BLOCK_M,
                                (problem.n + Tile::BLOCK_N - 1) / Tile::BLOCK_N, tile_m, tile_n);
    // Below 2^31: kept in 32 bits and widened at each use, the tile costs two registers less.
    const int tile_row = static_cast<int>(tile_m), tile_column = static_cast<int>(tile_n);
    const auto row0 = [=] { return int64_t{tile_row} * Tile::BLOCK_M; };
    const auto column0 = [=] { return int64_t{tile_column} * Tile::BLOCK_N; };
    const bool is_last = turn.last == args.stream_k.rule.steps;

    if (turn.first == 0)
      clear(chain);
    else
      take_over_by_shared<Tile::THREADS, Tile::SHARED_BYTES>(args.stream_k.hand_over, number - 1,
                                                             shared, in_a_row(chain));
    const int64_t begin = int64_t{turn.first} * Tile::BLOCK_K;
    multiply(row0(), column0(), begin, is_last ? problem.k : int64_t{turn.last} * Tile::BLOCK_K);
    if (is_last) {
      add_segment<Tile::THREADS>(nullptr, in_a_row(chain), true, true);
      store(row0(), column0());
    } else {
      hand_over<Tile::THREADS>(args.stream_k.hand_over, number, in_a_row(chain));
    }
  }
}

}  // namespace tiled
