// Lesson 3, register_tile. Each thread keeps a thread tile of C, THREAD_M x THREAD_N, in registers:
// a column of its A values and a row of its B values, loaded once from shared memory, feed
// THREAD_M x THREAD_N multiply-adds (64 for 16 loads at 8 x 8).
//
//            B tile [BLOCK_K][BLOCK_N]             It is made of 16-byte vectors that are
//              v0   v1   ...                       BLOCK / (vectors in the tile) apart, so that
//            +----+----+                           neighbouring threads read neighbouring vectors:
//    A tile  |    |    |  a warp: 4 x 8 threads    a warp's load of A is 4 vectors in a row, of B
//    v0 +    +----+----+                           8 vectors in a row, without bank conflicts.
//    v1 +    |    |    |
//            +----+----+
//
// Two stages of shared memory: while one step computes, the next is on its way from global memory
// through registers (tile_loader.cuh) and goes to the other stage; one barrier a step. Both tiles
// stand k-major in shared memory, so every layout of A and B computes at the same speed.
//
// Preconditions: none. A and B are read by vectors if the plan's Access says so. fp32 runs here
// where there is no cp.async, below compute capability 8.0.
// Bound by: the FMA units and the issue of shared-memory loads, one 16-byte load for 16 FMAs.
// Measured: 94 % of cuBLAS (fp32, 4096, H200).
// Next: lesson 4 multiplies by tensor cores; engine/register_tile is this for fp32 by cp.async.
#include "core/segments.h"
#include "cuda/lessons/3_register_tile/kernel.h"
#include "cuda/lessons/3_register_tile/tile_loader.cuh"
#include "cuda/lessons/3_register_tile/tiles.h"
#include "cuda/parts/arithmetic/signed_bytes.cuh"
#include "cuda/parts/arithmetic/thread_tile.cuh"
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/parts/schedule/for_groups.cuh"
#include "cuda/parts/schedule/raster.cuh"
#include "cuda/parts/schedule/turn.cuh"

namespace tiled {

constexpr int64_t RASTER_GROUP = 16;  // rows of tiles

// Two stages, each A's tile [BLOCK_K][LEADING_A] and then B's [BLOCK_K][LEADING_B].
template <typename T, typename Tile>
using RegisterTileStages = Accumulator<T>[2 * Tile::BLOCK_K * (Tile::LEADING_A + Tile::LEADING_B)];

// Tile `number` of a problem.
template <typename T, typename Tile, Access ACCESS_A, Access ACCESS_B>
__device__ __forceinline__ void compute(const Problem& problem, const ProblemAndTotals& args,
                                        bool shares, RegisterTileStages<T, Tile>& tiles,
                                        int64_t number) {
  using Acc = Accumulator<T>;
  constexpr int BLOCK_M = Tile::BLOCK_M, BLOCK_N = Tile::BLOCK_N, BLOCK_K = Tile::BLOCK_K;
  constexpr int THREAD_M = Tile::THREAD_M, THREAD_N = Tile::THREAD_N, VECTOR = Tile::VECTOR;
  constexpr int STRIDE_M = BLOCK_M / (THREAD_M / VECTOR);  // rows between vectors
  constexpr int STRIDE_N = BLOCK_N / (THREAD_N / VECTOR);
  static_assert(sizeof(Acc) == Tile::ACC_BYTES, "the tile is made for another accumulator");

  constexpr int A_TILE = BLOCK_K * Tile::LEADING_A, B_TILE = BLOCK_K * Tile::LEADING_B;
  constexpr int STAGE = A_TILE + B_TILE;

  int64_t tile_m, tile_n;
  tile_of_block<RASTER_GROUP>(number, (problem.m + BLOCK_M - 1) / BLOCK_M,
                              (problem.n + BLOCK_N - 1) / BLOCK_N, tile_m, tile_n);
  // Below 2^31: kept in 32 bits and widened at each use, the tile costs two registers less.
  const int tile_row = static_cast<int>(tile_m), tile_column = static_cast<int>(tile_n);
  const auto row0 = [=] { return int64_t{tile_row} * BLOCK_M; };
  const auto column0 = [=] { return int64_t{tile_column} * BLOCK_N; };

  // A warp is 4 x 8 threads; warps are laid side by side along n first. Lanes are numbered so that
  // lane i reads the same vector of B as i ^ 1 and the same vector of A as i ^ 2: then the hardware
  // serves a 16-byte load of half a warp at once, instead of a quarter.
  constexpr int WARPS_N = BLOCK_N / THREAD_N / 8;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int thread_tile_m =
      (warp / WARPS_N * 4 + lane / 16 * 2 + lane % 2) * VECTOR;            // its first row
  const int thread_tile_n = (warp % WARPS_N * 8 + lane / 2 % 8) * VECTOR;  // first column

  for (int64_t turn = blockIdx.y; turn < turns_of(problem, shares, args.leaves);
       turn += gridDim.y) {
    const int64_t entry = entry_of(problem, shares, turn);
    const T* a_data = static_cast<const T*>(problem.a.data) + entry * problem.a.batch_stride +
                      row0() * problem.a.row_stride;
    const T* b_data = static_cast<const T*>(problem.b.data) + entry * problem.b.batch_stride +
                      column0() * problem.b.col_stride;
    Acc sums[THREAD_M][THREAD_N];  // of a segment, then of all so far
#pragma unroll 1
    for (int64_t segment = first_segment_of(problem, shares, turn);; ++segment) {
      Chain<Acc> chain[THREAD_M][THREAD_N];
      clear(chain);
      const auto [begin, end] = stretch_of(problem, segment, args.leaves);
      TileLoader<T, Tile, BLOCK_M, Tile::LEADING_A, ACCESS_A> a(
          a_data + begin * problem.a.col_stride, problem.a.row_stride, problem.a.col_stride,
          problem.m - row0());
      TileLoader<T, Tile, BLOCK_N, Tile::LEADING_B, ACCESS_B> b(
          b_data + begin * problem.b.row_stride, problem.b.col_stride, problem.b.row_stride,
          problem.n - column0());
      const bool whole = a.whole() && b.whole();

      int left = static_cast<int>(end - begin);  // values of k not yet multiplied
      int stage = 0;                             // 0 or STAGE
      a.fetch(left);
      b.fetch(left);
      a.store(tiles);
      b.store(tiles + A_TILE);
      __syncthreads();

      // Values are loaded one k ahead of their use, across the change of stage too.
      Acc a_fragment[2][THREAD_M], b_fragment[2][THREAD_N];
      const auto load_fragments = [&](int k) {
        load_thread_tile<Acc, THREAD_M, VECTOR>(tiles + stage + k * Tile::LEADING_A + thread_tile_m,
                                                STRIDE_M, a_fragment[k % 2]);
        load_thread_tile<Acc, THREAD_N, VECTOR>(
            tiles + stage + A_TILE + k * Tile::LEADING_B + thread_tile_n, STRIDE_N,
            b_fragment[k % 2]);
      };
      load_fragments(0);
      for (; left > 0; left -= BLOCK_K) {
        const bool more = left > BLOCK_K;
        if (whole && left >= 2 * BLOCK_K) {
          a.fetch_whole();
          b.fetch_whole();
        } else if (more) {
          a.fetch(left - BLOCK_K);
          b.fetch(left - BLOCK_K);
        }
#pragma unroll
        for (int k = 0; k < BLOCK_K; ++k) {
          if (k < BLOCK_K - 1) {
            load_fragments(k + 1);
          } else if (more) {
            stage = STAGE - stage;
            a.store(tiles + stage);
            b.store(tiles + stage + A_TILE);
            __syncthreads();  // the new stage is filled, and the old one read by all
            load_fragments(0);
          }
          multiply_thread_tiles<Tile::PANEL_N>(a_fragment[k % 2], b_fragment[k % 2], chain);
        }
      }
      __syncthreads();  // before the next segment or batch entry fills the first stage
      const bool is_last = is_last_segment(problem, shares, segment);
      sum_chains(chain, sums);
      add_segment<Tile::THREADS>(args.totals, in_a_row(sums), is_first_segment(shares, segment),
                                 is_last);
      if (is_last) break;
    }
    if (shares) let_the_next_start();
    store_thread_tile<T, VECTOR>(problem, turn, in_a_row(sums), [&](int v) -> Spot {
      const int i = v / (THREAD_N / VECTOR), j = v % (THREAD_N / VECTOR);
      return {row0() + thread_tile_m + i / VECTOR * STRIDE_M + i % VECTOR,
              column0() + thread_tile_n + j * STRIDE_N};
    });
  }
}

template <typename T, typename Tile, Access ACCESS_A, Access ACCESS_B>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    register_tile(const __grid_constant__ ProblemAndTotals args) {
  __shared__ alignas(16) RegisterTileStages<T, Tile> tiles;
  compute<T, Tile, ACCESS_A, ACCESS_B>(args.problem, args, args.split_k, tiles, blockIdx.x);
}

// Its operands come one element at a time: any will do.
template <typename T, typename Tile>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    register_tile_of_groups(const __grid_constant__ ProblemAndTotals args) {
  __shared__ alignas(16) RegisterTileStages<T, Tile> tiles;
  for_tiles_of_groups<Tile::BLOCK_M, Tile::BLOCK_N>(
      args.problem, [&](const Problem& problem, int64_t number) {
        compute<T, Tile, Access::Elements, Access::Elements>(problem, args, /*shares=*/false, tiles,
                                                             number);
      });
}

// The kernel for this element type and plan. Vector access exists for the floating types; both
// operands use it or neither.
template <typename T>
Kernel<ProblemAndTotals> register_tile_function(int tile, Accesses access, bool of_groups) {
  using Tiles = RegisterTilesFor<sizeof(Accumulator<T>), sizeof(Chain<Accumulator<T>>)>;
  if (of_groups) return &register_tile_of_groups<T, decltype(last_of(typename Tiles::List()))>;
  const auto pick = [&](auto chosen) -> Kernel<ProblemAndTotals> {
    using Tile = decltype(chosen);
    if constexpr (HAS_VECTOR_ACCESS<T>) {
      constexpr Access K = Access::AlongK, MN = Access::AlongMN;
      if (access.a == K && access.b == K) return &register_tile<T, Tile, K, K>;
      if (access.a == K && access.b == MN) return &register_tile<T, Tile, K, MN>;
      if (access.a == MN && access.b == K) return &register_tile<T, Tile, MN, K>;
      if (access.a == MN && access.b == MN) return &register_tile<T, Tile, MN, MN>;
    }
    return &register_tile<T, Tile, Access::Elements, Access::Elements>;
  };
  return with_tile(typename Tiles::List(), tile, pick);
}

Kernel<ProblemAndTotals> register_tile_kernel(const Problem& problem, int tile, Accesses access) {
  return with_element_type(problem, [&](auto tag) {
    return register_tile_function<typename decltype(tag)::Type>(tile, access, is_grouped(problem));
  });
}

}  // namespace tiled
