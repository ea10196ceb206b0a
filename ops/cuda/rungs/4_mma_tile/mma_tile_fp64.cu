// Rung 4, mma_tile, in fp64. Tensor cores do not cost fp64 anything: mma.sync computes the very
// chains of fused multiply-adds that the rungs before it have, at twice their rate. So the bits are
// those of naive, and this is the rung that fp64 runs.
//
//     shared memory: a ring of STAGES          C: a warp owns 64 x 32 of it, 4 x 4 tiles of 16 x 8
//     +-------+-------+-------+-------+          +-----+-----+-----+-----+
//     |  A,B  |  A,B  |  A,B  |  A,B  |          | w0  | w1  | w2  | w3  |
//     +-------+-------+-------+-------+          +-----+-----+-----+-----+
//      read    next    then    being             | w4  | w5  | w6  | w7  |
//      now                     filled            +-----+-----+-----+-----+
//      -> fragments            <- cp.async
//
// One wait and one barrier a step of 16 of k: after it the next stage is filled and the one just
// read may be filled again. Fragments of 8 of k are loaded while those before them are multiplied,
// across the change of stage too, and the copies are strewn among the multiplications, so that the
// tensor cores need not wait. Totals wait in the workspace.
//
// Preconditions: fp64; any strides and alignment.
// Bound by: the tensor cores, or the power that they draw.
// Measured on an H200, 2048 to 8192 in nn, nt and tn: 98 to 107 % of cuBLAS in bursts, 97 to 99 %
// at the power limit.
// Next: nothing for fp64, which has no wgmma; for 16 bits, rung 5.
#include "core/segments.h"
#include "cuda/parts/patch.cuh"
#include "cuda/parts/raster.cuh"
#include "cuda/plan/tiles.h"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/rungs/4_mma_tile/fp64_operand.cuh"
#include "cuda/rungs/kernels.h"

namespace tiled {

template <typename Tile, bool A_ALONG_M, bool B_ALONG_N>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    mma_tile_fp64(const __grid_constant__ ProblemAndTotals args) {
  const Problem& problem = args.problem;
  constexpr int BLOCK_M = Tile::BLOCK_M, BLOCK_N = Tile::BLOCK_N, BLOCK_K = Tile::BLOCK_K;
  constexpr int STAGES = Tile::STAGES, MMA_K = 8, PARTS = BLOCK_K / MMA_K;
  constexpr int TILES_M = Tile::WARP_M / 16, TILES_N = Tile::WARP_N / 8;  // of a warp
  constexpr uint32_t B_AT = Tile::TILE_BYTES(BLOCK_M), STAGE_BYTES = Tile::STAGE_BYTES;
  constexpr int64_t RASTER_GROUP = 16;  // rows of tiles
  using A = Fp64Operand<Tile, BLOCK_M, A_ALONG_M>;
  using B = Fp64Operand<Tile, BLOCK_N, B_ALONG_N>;

  extern __shared__ __align__(16) char shared[];
  const uint32_t shared_base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  // No launch_dependents: a next product's blocks would crowd on the multiprocessors that have room
  // beside this one's, two on some and none on others (512 with tiles of 64 x 64: 1.6 times
  // slower).
  ptx::griddepcontrol_wait();

  int64_t tile_m, tile_n;
  tile_of_block<RASTER_GROUP>(blockIdx.x, (problem.m + BLOCK_M - 1) / BLOCK_M,
                              (problem.n + BLOCK_N - 1) / BLOCK_N, tile_m, tile_n);
  // Below 2^31: kept in 32 bits and widened at each use, the tile costs two registers less.
  const int tile_row = static_cast<int>(tile_m), tile_column = static_cast<int>(tile_n);
  const auto row0 = [=] { return int64_t{tile_row} * BLOCK_M; };
  const auto column0 = [=] { return int64_t{tile_column} * BLOCK_N; };
  const int rows = static_cast<int>(min(problem.m - row0(), int64_t{BLOCK_M}));
  const int columns = static_cast<int>(min(problem.n - column0(), int64_t{BLOCK_N}));
  const auto a_strides = [&]() -> Fp64Strides {
    return {problem.a.row_stride, problem.a.col_stride, problem.a.alignment == 16};
  };
  const auto b_strides = [&]() -> Fp64Strides {
    return {problem.b.col_stride, problem.b.row_stride, problem.b.alignment == 16};
  };

  constexpr int WARPS_N = BLOCK_N / Tile::WARP_N;
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int warp_m = warp / WARPS_N * Tile::WARP_M, warp_n = warp % WARPS_N * Tile::WARP_N;
  const uint32_t a_lane = shared_base + A::at(warp_m + g, t);
  const uint32_t b_lane = shared_base + B_AT + B::at(warp_n + g, t);

  for (int64_t entry = blockIdx.y; entry < problem.batch; entry += gridDim.y) {
    // K = 0 has one segment of no length here, which stores zeros.
    const int64_t segments = problem.k == 0 ? 1 : segment_count(problem.k);
    double chain[TILES_M][TILES_N][4];
#pragma unroll 1
    for (int64_t segment = 0; segment < segments; ++segment) {
      clear(chain);
      const int64_t begin = segment_begin(segment), end = segment_end(segment, problem.k);
      A a(static_cast<const double*>(problem.a.data) + entry * problem.a.batch_stride +
              row0() * problem.a.row_stride + begin * problem.a.col_stride,
          a_strides());
      B b(static_cast<const double*>(problem.b.data) + entry * problem.b.batch_stride +
              column0() * problem.b.col_stride + begin * problem.b.row_stride,
          b_strides());
      const int length = static_cast<int>(end - begin);
      const int steps = (length + BLOCK_K - 1) / BLOCK_K;

      int to_copy = length;  // values of k whose copy has not been started
      const auto copy_step = [&](uint32_t stage) {
        if (to_copy <= 0) return;
        a.copy(stage, rows, to_copy, a_strides());
        b.copy(stage + B_AT, columns, to_copy, b_strides());
        to_copy -= BLOCK_K;
      };
      for (int stage = 0; stage < STAGES - 1; ++stage) {
        copy_step(shared_base + stage * STAGE_BYTES);
        ptx::cp_async_commit_group();
      }
      ptx::cp_async_wait_group<STAGES - 2>();
      __syncthreads();

      uint32_t read = 0, write = (STAGES - 1) * STAGE_BYTES;  // stages, as bytes
      const auto next = [](uint32_t stage) {
        return stage == (STAGES - 1) * STAGE_BYTES ? 0 : stage + STAGE_BYTES;
      };
      // Fragments of one part: A's are loaded again as soon as a row of tiles is done with them,
      // B's beside those in use.
      double a_part[TILES_M][4], b_parts[2][TILES_N][2];
      const auto load_a = [&](int i, int part) {
#pragma unroll
        for (int word = 0; word < 4; ++word)
          a_part[i][word] = ptx::load_shared_f64(
              a_lane + read + A::at(16 * i + word % 2 * 8, part * MMA_K + word / 2 * 4));
      };
      const auto load_b = [&](int j, int part, int into) {
#pragma unroll
        for (int word = 0; word < 2; ++word)
          b_parts[into][j][word] =
              ptx::load_shared_f64(b_lane + read + B::at(8 * j, part * MMA_K + word * 4));
      };
#pragma unroll
      for (int i = 0; i < TILES_M; ++i) load_a(i, 0);
#pragma unroll
      for (int j = 0; j < TILES_N; ++j) load_b(j, 0, 0);
      // `copy` starts a share of the copies, of SHARES a step, or all of them as the first.
      constexpr int SHARES = (PARTS - 1) * TILES_M;
      const auto run_step = [&](auto copy) {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
          if (part == PARTS - 1) {
            ptx::cp_async_wait_group<STAGES - 2>();
            __syncthreads();  // the next stage is filled, and this one read by all
            read = next(read);
          }
          const int next_part = (part + 1) % PARTS;
#pragma unroll
          for (int i = 0; i < TILES_M; ++i) {
#pragma unroll
            for (int column = 0; column < TILES_N; ++column) {
              // Every other row runs backwards, and so begins with the fragment at hand.
              const int j = i % 2 == 0 ? column : TILES_N - 1 - column;
              ptx::mma(chain[i][j], a_part[i], b_parts[part % 2][j]);
            }
            load_a(i, next_part);
#pragma unroll
            for (int j = i * TILES_N / TILES_M; j < (i + 1) * TILES_N / TILES_M; ++j)
              load_b(j, next_part, (part + 1) % 2);
            if (part < PARTS - 1) copy(part * TILES_M + i);
          }
          if (part == PARTS - 2) {
            ptx::cp_async_commit_group();
            write = next(write);
          }
        }
      };
      int step = 0;
      if (rows == BLOCK_M && columns == BLOCK_N) {
        constexpr int COPIES = A::COPIES + B::COPIES;
        const int whole_steps = length / BLOCK_K - (STAGES - 1);
#pragma unroll 1
        for (; step < whole_steps; ++step)
          run_step([&](int share) {
#pragma unroll
            for (int i = share * COPIES / SHARES; i < (share + 1) * COPIES / SHARES; ++i)
              if (i < A::COPIES)
                a.copy_whole(shared_base + write, i, a_strides());
              else
                b.copy_whole(shared_base + write + B_AT, i - A::COPIES, b_strides());
          });
        to_copy -= step * BLOCK_K;
      }
#pragma unroll 1
      for (; step < steps; ++step)
        run_step([&](int share) {
          if (share == 0) copy_step(shared_base + write);
        });
      __syncthreads();  // before the next segment or batch entry fills the first stage

      add_segment<Tile::THREADS>(args.totals, in_a_row(chain), segment, segments);
    }
    store_patch<double, 2>(problem, entry, in_a_row(chain), [&](int v) -> Spot {
      const int i = v / 2 / TILES_N, j = v / 2 % TILES_N;  // the tile of two vectors
      return {row0() + warp_m + 16 * i + v % 2 * 8 + g, column0() + warp_n + 8 * j + 2 * t};
    });
  }
}

const void* mma_tile_fp64_kernel(const Problem& problem, const Plan& plan) {
  const bool a_along_m = is_mn_major(side_a(problem)), b_along_n = is_mn_major(side_b(problem));
  const auto pick = [&](auto tile) -> const void* {
    using Tile = decltype(tile);
    if (a_along_m && b_along_n)
      return reinterpret_cast<const void*>(&mma_tile_fp64<Tile, true, true>);
    if (a_along_m) return reinterpret_cast<const void*>(&mma_tile_fp64<Tile, true, false>);
    if (b_along_n) return reinterpret_cast<const void*>(&mma_tile_fp64<Tile, false, true>);
    return reinterpret_cast<const void*>(&mma_tile_fp64<Tile, false, false>);
  };
  switch (plan.tile) {
    case TileSize::Large: return pick(Fp64Tiles::Large{});
    case TileSize::Medium: return pick(Fp64Tiles::Medium{});
    default: return pick(Fp64Tiles::Small{});
  }
}

}  // namespace tiled
