// Rung mma_tile, in fp64, where tiles do not divide among the blocks that run at once: stream-K
// (plan/stream_k.h), so that no block has a tile more than another. The chains are those of
// mma_tile_fp64.cu. The accumulators of a tile that is handed over, exact in fp64, go from one
// block to the next through memory (parts/schedule/hand_over.cuh).
//
// Preconditions: fp64; any strides and alignment; one entry of a batch, one segment of K; more
// tiles than blocks; the ticket and the flags are zero. Bound by: the tensor cores, as without
// cuts; a block stores and loads one tile of accumulators more.
#include "cuda/engine/mma_tile/fp64_chain.cuh"
#include "cuda/engine/mma_tile/kernels.h"
#include "cuda/engine/mma_tile/tiles.h"
#include "cuda/parts/schedule/stream_k.cuh"

namespace tiled {

template <typename Tile, bool A_ALONG_M, bool B_ALONG_N>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    mma_tile_fp64_stream_k(const __grid_constant__ StreamKArguments args) {
  const Problem& problem = args.problem;
  extern __shared__ __align__(ptx::CP_ASYNC_ALIGNMENT) char shared[];
  const uint32_t shared_base = ptx::shared_address(shared);
  const Fp64Lane<Tile> lane;
  Fp64Chain<Tile> chain;
  run_turns<Tile, FP64_RASTER_GROUP>(
      args, shared_base, chain,
      [&](int64_t row0, int64_t column0, int64_t begin, int64_t end) {
        multiply_fp64_tile<Tile, A_ALONG_M, B_ALONG_N>(problem, shared_base, 0, row0, column0,
                                                       begin, end, lane, chain);
      },
      [&](int64_t row0, int64_t column0) {
        store_fp64<Tile>(problem, 0, row0, column0, lane, chain);
      });
}

namespace {

template <typename... Tiles>
Kernel<StreamKArguments> kernel_of(TileList<Tiles...>, const Problem& problem, int tile) {
  return as_they_lie(problem, [&](auto a_along_m, auto b_along_n) {
    constexpr Kernel<StreamKArguments> KERNELS[] = {
        &mma_tile_fp64_stream_k<Tiles, a_along_m, b_along_n>...};
    return KERNELS[tile];
  });
}

}  // namespace

Kernel<StreamKArguments> mma_tile_fp64_stream_k_kernel(const Problem& problem, int tile) {
  return kernel_of(Fp64StreamKTiles(), problem, tile);
}

}  // namespace tiled
