// Rung register_tile, for fp32 where tiles do not divide among the blocks that run at once:
// stream-K (plan/stream_k.h), so that no block has a tile more than another. The chains are
// those of register_tile_async.cu. The accumulators of a tile that is handed over, exact in fp32,
// go from one block to the next through memory (parts/schedule/hand_over.cuh).
//
// Preconditions: those of register_tile_async; one entry of a batch, one segment of K; more tiles
// than blocks; the ticket and the flags are zero.
// Bound by: the FMA units, as without cuts; a block stores and loads one tile of accumulators more.
// Of cuBLAS: 104 % in the geometric mean of 38 sizes on an H200, 96 % with whole tiles alone
// (docs/decisions/007).
#include "cuda/engine/register_tile/async_chain.cuh"
#include "cuda/engine/register_tile/kernels.h"
#include "cuda/engine/register_tile/tiles.h"
#include "cuda/parts/schedule/stream_k.cuh"

namespace tiled {

template <typename Tile, Access ACCESS_A, Access ACCESS_B>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    register_tile_stream_k(const __grid_constant__ StreamKArguments args) {
  const Problem& problem = args.problem;
  __shared__ alignas(ptx::CP_ASYNC_ALIGNMENT) char shared[Tile::SHARED_BYTES];
  const ThreadTileOf<Tile> thread_tile;
  float chain[Tile::THREAD_M][Tile::THREAD_N];
  run_turns<Tile, ASYNC_RASTER_GROUP>(
      args, static_cast<uint32_t>(__cvta_generic_to_shared(shared)), chain,
      [&](int64_t row0, int64_t column0, int64_t begin, int64_t end) {
        const ReadFrom<Tile> from(problem, row0, column0);
        multiply_stretch<Tile, ACCESS_A, ACCESS_B>(
            problem, shared,
            static_cast<const float*>(problem.a.data) + from.row * problem.a.row_stride +
                begin * problem.a.col_stride,
            static_cast<const float*>(problem.b.data) + from.column * problem.b.col_stride +
                begin * problem.b.row_stride,
            problem.m - from.row, problem.n - from.column, static_cast<int>(end - begin),
            thread_tile, chain);
      },
      [&](int64_t row0, int64_t column0) {
        store_chain<Tile>(problem, 0, row0, column0, thread_tile, chain);
      });
}

Kernel<StreamKArguments> register_tile_stream_k_kernel(const RegisterTileWay& way) {
  const auto pick = [&](auto tile) -> Kernel<StreamKArguments> {
    using Tile = decltype(tile);
    constexpr Access MN = Access::AlongMN, ANY = Access::Elements;
    if (way.access.a == MN && way.access.b == MN) return &register_tile_stream_k<Tile, MN, MN>;
    if (way.access.a == MN) return &register_tile_stream_k<Tile, MN, ANY>;
    if (way.access.b == MN) return &register_tile_stream_k<Tile, ANY, MN>;
    return &register_tile_stream_k<Tile, ANY, ANY>;
  };
  return with_tile(AsyncTiles(), way.tile, pick);
}

}  // namespace tiled
