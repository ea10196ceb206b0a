// Rung mma_tile, in fp64. Tensor cores do not cost fp64 anything: mma.sync computes the very
// chains of fused multiply-adds that the first lessons have, at twice their rate. So the bits are
// those of naive, and this is the kernel for large products in fp64.
//
//     shared memory: a ring of STAGES          C: a warp owns 64 x 32 of it, 4 x 4 tiles of 16 x 8
//     +-------+-------+-------+-------+          +-----+-----+-----+-----+
//     |  A,B  |  A,B  |  A,B  |  A,B  |          | w0  | w1  | w2  | w3  |
//     +-------+-------+-------+-------+          +-----+-----+-----+-----+
//      read    next    then    being             | w4  | w5  | w6  | w7  |
//      now                     filled            +-----+-----+-----+-----+
//      -> fragments            <- cp.async
//
// One barrier a step of 16 of k: after it the next stage is filled and the one just read may be
// filled again. Fragments of 8 of k are loaded while those before them are multiplied, across the
// change of stage too, and the copies are strewn among the multiplications, so that the tensor
// cores need not wait. A tile at C's edge is read from further back, as a whole, and what it has of
// its neighbour's is not stored. Totals wait in the workspace.
//
// Preconditions: fp64; any strides and alignment.
// Bound by: the tensor cores, or the power that they draw.
// Measured on an H200, 2048 to 8192 in nn, nt and tn: 96 to 110 % of cuBLAS in bursts, 97 to 99 %
// at the power limit.
#include "cuda/engine/mma_tile/fp64_chain.cuh"
#include "cuda/engine/mma_tile/kernels.h"
#include "cuda/engine/mma_tile/tiles.h"
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/parts/schedule/for_groups.cuh"
#include "cuda/parts/schedule/raster.cuh"
#include "cuda/parts/schedule/turn.cuh"
#include "cuda/ptx/cluster.cuh"

namespace tiled {

// Tile `number` of a problem.
template <typename Tile, bool A_ALONG_M, bool B_ALONG_N>
__device__ __forceinline__ void compute_fp64(const Problem& problem, const ProblemAndTotals& args,
                                             bool shares, uint32_t shared_base, int64_t number) {
  constexpr int BLOCK_M = Tile::BLOCK_M, BLOCK_N = Tile::BLOCK_N;
  int64_t tile_m, tile_n;
  tile_of_block<FP64_RASTER_GROUP>(number, (problem.m + BLOCK_M - 1) / BLOCK_M,
                                   (problem.n + BLOCK_N - 1) / BLOCK_N, tile_m, tile_n);
  // Below 2^31: kept in 32 bits and widened at each use, the tile costs two registers less.
  const int tile_row = static_cast<int>(tile_m), tile_column = static_cast<int>(tile_n);
  const auto row0 = [=] { return int64_t{tile_row} * BLOCK_M; };
  const auto column0 = [=] { return int64_t{tile_column} * BLOCK_N; };
  const Fp64Lane<Tile> lane;

  for (int64_t turn = blockIdx.y; turn < turns_of(problem, shares, args.leaves);
       turn += gridDim.y) {
    const int64_t entry = entry_of(problem, shares, turn);
    Fp64Chain<Tile> chain;
#pragma unroll 1
    for (int64_t segment = first_segment_of(problem, shares, turn);; ++segment) {
      clear(chain);
      const auto [begin, end] = stretch_of(problem, segment, args.leaves);
      multiply_fp64_tile<Tile, A_ALONG_M, B_ALONG_N>(problem, shared_base, entry, row0(), column0(),
                                                     begin, end, lane, chain);
      const bool is_last = is_last_segment(problem, shares, segment);
      add_segment<Tile::THREADS>(args.totals, in_a_row(chain), is_first_segment(shares, segment),
                                 is_last);
      if (is_last) break;
    }
    if (shares) let_the_next_start();
    store_fp64<Tile>(problem, turn, row0(), column0(), lane, chain);
  }
}

template <typename Tile, bool A_ALONG_M, bool B_ALONG_N>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    mma_tile_fp64(const __grid_constant__ ProblemAndTotals args) {
  extern __shared__ __align__(ptx::CP_ASYNC_ALIGNMENT) char shared[];
  const uint32_t shared_base = ptx::shared_address(shared);
  // The next kernel is not let start: a next product's blocks would crowd on the multiprocessors
  // that have room beside this one's, two on some and none on others (512 with tiles of 64 x
  // 64: 1.6 times slower).
  wait_for_kernels_before();
  compute_fp64<Tile, A_ALONG_M, B_ALONG_N>(args.problem, args, args.split_k, shared_base,
                                           blockIdx.x);
}

template <typename Tile, bool A_ALONG_M, bool B_ALONG_N>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    mma_tile_fp64_of_groups(const __grid_constant__ ProblemAndTotals args) {
  extern __shared__ __align__(ptx::CP_ASYNC_ALIGNMENT) char shared[];
  wait_for_kernels_before();
  for_tiles_of_groups<Tile::BLOCK_M, Tile::BLOCK_N>(
      args.problem, [&](const Problem& problem, int64_t number) {
        compute_fp64<Tile, A_ALONG_M, B_ALONG_N>(problem, args, /*shares=*/false,
                                                 ptx::shared_address(shared), number);
      });
}

namespace {

template <typename... Tiles>
Kernel<ProblemAndTotals> kernel_of(TileList<Tiles...>, const Problem& problem, int tile) {
  return as_they_lie(problem, [&](auto a_along_m, auto b_along_n) -> Kernel<ProblemAndTotals> {
    if (is_grouped(problem))
      return &mma_tile_fp64_of_groups<Fp64TileOfGroups, a_along_m, b_along_n>;
    constexpr Kernel<ProblemAndTotals> KERNELS[] = {&mma_tile_fp64<Tiles, a_along_m, b_along_n>...};
    return KERNELS[tile];
  });
}

}  // namespace

Kernel<ProblemAndTotals> mma_tile_fp64_kernel(const Problem& problem, int tile) {
  return kernel_of(Fp64Tiles{}, problem, tile);
}

}  // namespace tiled
