// Rung 3, register_tile, for fp32 where tiles do not divide among the blocks that run at once:
// tiles are cut in time (parts/wrap_around.h), so that no block has a tile more than another. The
// chains are those of register_tile_async.cu. Where a tile is cut, its accumulators, exact in fp32,
// go from one block to the next through memory (parts/hand_over.cuh).
//
// Preconditions: those of register_tile_async; one entry of a batch, one segment of K; more tiles
// than blocks; the ticket and the flags are zero.
// Bound by: the FMA units, as without cuts; a block stores and loads one tile of accumulators more.
// Of cuBLAS: 104 % in the geometric mean of 38 sizes on an H200, 96 % with whole tiles alone
// (bench/results/h200_cut_tiles.txt).
// Next: rung mma_tile, whose multiply-adds are the tensor cores'.
#include "cuda/parts/fault.cuh"
#include "cuda/parts/hand_over.cuh"
#include "cuda/parts/raster.cuh"
#include "cuda/rungs/3_register_tile/async_chain.cuh"
#include "cuda/rungs/3_register_tile/kernels.h"
#include "cuda/rungs/3_register_tile/tiles.h"

namespace tiled {
namespace {

__global__ void clear_words(const __grid_constant__ WrappedArguments args) {
  for (uint32_t i = threadIdx.x; i < args.wrap.clusters; i += blockDim.x)
    if (FAULT != Fault::NoClear) args.hand_over.flags[i] = 0;
  if (threadIdx.x == 0) *args.hand_over.ticket = 0;
}

}  // namespace

template <typename Tile, Access ACCESS_A, Access ACCESS_B>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    register_tile_wrapped(const __grid_constant__ WrappedArguments args) {
  const Problem& problem = args.problem;
  __shared__ alignas(16) char shared[Tile::SHARED_BYTES];
  __shared__ uint32_t number;
  if (threadIdx.x == 0) number = draw_number(args.hand_over);
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
      take_over<Tile::THREADS>(args.hand_over, number - 1, in_a_row(chain));
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
      hand_over<Tile::THREADS>(args.hand_over, number, in_a_row(chain));
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
