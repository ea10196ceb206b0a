// Rung register_tile, for fp32 where cp.async exists (compute capability 8.0 on). The same
// thread tiles of C in registers; but the tiles of A and B pass no register on their way to shared
// memory, several steps of them are on their way at once, and between segments the workspace holds
// the running total. So a thread's registers are left to its thread tile, which may be 16 x 8: 128
// multiply-adds for 24 loaded values.
//
//     shared memory: a ring of STAGES          C: a warp owns 4 x 8 thread tiles, whose 16-byte
//     +-------+-------+-------+                vectors interleave, so that a warp's load is 4
//     |  A,B  |  A,B  |  A,B  |                vectors of A side by side, or 8 of B
//     +-------+-------+-------+                  +----------------+----------------+
//      read    next    being                     | w0   64 x 64   | w1             |
//      now     step    filled                    +----------------+----------------+
//      -> registers    <- cp.async               | w2             | w3             |
//                                                +----------------+----------------+
//
// One wait and one barrier a step: after it the next stage is filled and the one just read may be
// filled again. Both tiles stand k-major in shared memory; an operand that is contiguous along k is
// transposed on its way, 4 bytes at a time, unless the plan has had it transposed before.
//
// Preconditions: fp32. A and B are read by vectors where the plan's Access says so, else any
// strides and alignment.
// Bound by: the FMA units; 92 % of the loop are multiply-adds where both operands come by vectors,
// 88 % where both are transposed on the way.
// Measured on an H200 at 4096: 101 to 103 % of cuBLAS in nn, nt and tn, transposing passes with it;
// 93 to 95 % without them.
#include "cuda/engine/register_tile/async_chain.cuh"
#include "cuda/engine/register_tile/kernels.h"
#include "cuda/engine/register_tile/tiles.h"
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/parts/schedule/for_groups.cuh"
#include "cuda/parts/schedule/raster.cuh"
#include "cuda/parts/schedule/turn.cuh"

namespace tiled {

// Tile `number` of a problem. SHARES: split-K (plan/sums.h). An instance of
// its own: asked at run time it spreads the registers of all otherwise, which whole tiles pay for.
template <typename Tile, Access ACCESS_A, Access ACCESS_B, bool SHARES>
__device__ __forceinline__ void compute_async(const Problem& problem, const ProblemAndTotals& args,
                                              char* shared, int64_t number) {
  constexpr int BLOCK_M = Tile::BLOCK_M, BLOCK_N = Tile::BLOCK_N;
  constexpr int THREAD_M = Tile::THREAD_M, THREAD_N = Tile::THREAD_N;
  int64_t tile_m, tile_n;
  tile_of_block<ASYNC_RASTER_GROUP>(number, (problem.m + BLOCK_M - 1) / BLOCK_M,
                                    (problem.n + BLOCK_N - 1) / BLOCK_N, tile_m, tile_n);
  // Below 2^31: kept in 32 bits and widened at each use, the tile costs two registers less.
  const int tile_row = static_cast<int>(tile_m), tile_column = static_cast<int>(tile_n);
  const auto row0 = [=] { return int64_t{tile_row} * BLOCK_M; };
  const auto column0 = [=] { return int64_t{tile_column} * BLOCK_N; };

  const ThreadTileOf<Tile> thread_tile;

  const int64_t turns = SHARES ? turns_of(problem, true, args.leaves) : problem.batch;
  for (int64_t turn = blockIdx.y; turn < turns; turn += gridDim.y) {
    const int64_t entry = SHARES ? entry_of(problem, true, turn) : turn;
    const ReadFrom<Tile> from(problem, row0(), column0());
    const float* a_data = static_cast<const float*>(problem.a.data) +
                          entry * problem.a.batch_stride + from.row * problem.a.row_stride;
    const float* b_data = static_cast<const float*>(problem.b.data) +
                          entry * problem.b.batch_stride + from.column * problem.b.col_stride;
    const int64_t segments = SHARES ? 1 : segments_of(problem);
    float chain[THREAD_M][THREAD_N];
#pragma unroll 1
    for (int64_t segment = 0; segment < segments; ++segment) {
      clear(chain);
      const int64_t at = SHARES ? first_segment_of(problem, true, turn) : segment;
      const auto [begin, end] = stretch_of<SHARES>(problem, at, args.leaves);
      multiply_stretch<Tile, ACCESS_A, ACCESS_B>(
          problem, shared, a_data + begin * problem.a.col_stride,
          b_data + begin * problem.b.row_stride, problem.m - from.row, problem.n - from.column,
          static_cast<int>(end - begin), thread_tile, chain);

      constexpr int IN_FLIGHT = THREAD_M * THREAD_N > 64 ? 8 : 0;  // else the largest tile spills
      add_segment<Tile::THREADS, IN_FLIGHT>(args.totals, in_a_row(chain), segment == 0,
                                            segment + 1 == segments);
    }
    if constexpr (SHARES) let_the_next_start();
    store_chain<Tile>(problem, turn, row0(), column0(), thread_tile, chain);
  }
}

template <typename Tile, Access ACCESS_A, Access ACCESS_B, bool SHARES>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    register_tile_async(const __grid_constant__ ProblemAndTotals args) {
  __shared__ alignas(ptx::CP_ASYNC_ALIGNMENT) char shared[Tile::SHARED_BYTES];
  compute_async<Tile, ACCESS_A, ACCESS_B, SHARES>(args.problem, args, shared, blockIdx.x);
}

template <typename Tile, Access ACCESS_A, Access ACCESS_B>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    register_tile_async_of_groups(const __grid_constant__ ProblemAndTotals args) {
  __shared__ alignas(ptx::CP_ASYNC_ALIGNMENT) char shared[Tile::SHARED_BYTES];
  for_tiles_of_groups<Tile::BLOCK_M, Tile::BLOCK_N>(
      args.problem, [&](const Problem& problem, int64_t number) {
        compute_async<Tile, ACCESS_A, ACCESS_B, false>(problem, args, shared, number);
      });
}

// As pick(tile, access of A, access of B) says, each of them a constant.
template <typename Pick>
Kernel<ProblemAndTotals> by_tile_and_access(const RegisterTileWay& way, Pick pick) {
  return with_tile(AsyncTiles(), way.tile, [&](auto tile) -> Kernel<ProblemAndTotals> {
    constexpr std::integral_constant<Access, Access::AlongMN> MN;
    constexpr std::integral_constant<Access, Access::Elements> ANY;
    if (way.access.a == MN && way.access.b == MN) return pick(tile, MN, MN);
    if (way.access.a == MN) return pick(tile, MN, ANY);
    if (way.access.b == MN) return pick(tile, ANY, MN);
    return pick(tile, ANY, ANY);
  });
}

Kernel<ProblemAndTotals> register_tile_async_kernel(const RegisterTileWay& way, bool of_groups) {
  using Found = Kernel<ProblemAndTotals>;
  if (of_groups)
    return by_tile_and_access(way, [](auto tile, auto a, auto b) -> Found {
      return &register_tile_async_of_groups<decltype(tile), a, b>;
    });
  if (way.split_k)
    return by_tile_and_access(way, [](auto tile, auto a, auto b) -> Found {
      return &register_tile_async<decltype(tile), a, b, true>;
    });
  return by_tile_and_access(way, [](auto tile, auto a, auto b) -> Found {
    return &register_tile_async<decltype(tile), a, b, false>;
  });
}

}  // namespace tiled
