// Rung 3, register_tile, for fp32 where cp.async exists (compute capability 8.0 on). The same
// patches of C in registers; but the tiles of A and B pass no register on their way to shared
// memory, several steps of them are on their way at once, and between segments the workspace holds
// the running total. So a thread's registers are left to its patch, which may be 16 x 8: 128
// multiply-adds for 24 loaded values.
//
//     shared memory: a ring of STAGES          C: a warp owns 4 x 8 patches, whose 16-byte
//     +-------+-------+-------+                vectors interleave, so that a warp's load is 4
//     |  A,B  |  A,B  |  A,B  |                vectors of A side by side, or 8 of B
//     +-------+-------+-------+                  +----------------+----------------+
//      read    next    being                     | w0   64 x 64   | w1             |
//      now     step    filled                    +----------------+----------------+
//      -> registers    <- cp.async               | w2             | w3             |
//                                                +----------------+----------------+
//
// One wait and one barrier a step: after it the next stage is filled and the one just read may be
// filled again. Both tiles stand k-major in shared memory; an operand that lies along k is
// transposed on its way, 4 bytes at a time, unless the plan has had it transposed before.
//
// Preconditions: fp32. A and B are read by vectors where the plan's Access says so, else any
// strides and alignment.
// Bound by: the FMA units; 92 % of the loop are multiply-adds where both operands come by vectors,
// 88 % where both are transposed on the way.
// Measured on an H200 at 4096: 99 to 101 % of cuBLAS in nn, nt and tn, transposing passes included;
// 93 to 95 % without them.
// Next: tensor cores. One instruction then multiplies whole tiles.
#include "core/segments.h"
#include "cuda/parts/patch.cuh"
#include "cuda/parts/raster.cuh"
#include "cuda/rungs/3_register_tile/async_tile_loader.cuh"
#include "cuda/rungs/3_register_tile/kernels.h"
#include "cuda/rungs/3_register_tile/tiles.h"

namespace tiled {

template <typename Tile, Access ACCESS_A, Access ACCESS_B>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    register_tile_async(const __grid_constant__ ProblemAndTotals args) {
  const Problem& problem = args.problem;
  constexpr int BLOCK_M = Tile::BLOCK_M, BLOCK_N = Tile::BLOCK_N, BLOCK_K = Tile::BLOCK_K;
  constexpr int THREAD_M = Tile::THREAD_M, THREAD_N = Tile::THREAD_N, VECTOR = Tile::VECTOR;
  constexpr int STRIDE_M = 4 * VECTOR, STRIDE_N = 8 * VECTOR;  // between a patch's vectors
  constexpr int STAGES = Tile::STAGES;
  constexpr int64_t RASTER_GROUP = 8;  // rows of tiles

  // A ring of stages, each A's tile [BLOCK_K][LEADING_A] and then B's [BLOCK_K][LEADING_B].
  constexpr uint32_t A_BYTES = BLOCK_K * Tile::LEADING_A * 4;
  constexpr uint32_t STAGE_BYTES = Tile::STAGE_ELEMENTS * 4;
  __shared__ alignas(16) char shared[Tile::SHARED_BYTES];
  const uint32_t shared_base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));

  int64_t tile_m, tile_n;
  tile_of_block<RASTER_GROUP>(blockIdx.x, (problem.m + BLOCK_M - 1) / BLOCK_M,
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
  const int patch_m =  // first row of the patch
      warp / WARPS_N * (4 * THREAD_M) + (lane / 16 * 2 + lane % 2) * VECTOR;
  const int patch_n = warp % WARPS_N * (8 * THREAD_N) + lane / 2 % 8 * VECTOR;  // first column

  for (int64_t entry = blockIdx.y; entry < problem.batch; entry += gridDim.y) {
    const float* a_data = static_cast<const float*>(problem.a.data) +
                          entry * problem.a.batch_stride + row0() * problem.a.row_stride;
    const float* b_data = static_cast<const float*>(problem.b.data) +
                          entry * problem.b.batch_stride + column0() * problem.b.col_stride;
    // K = 0 has one segment of no length here, which stores zeros.
    const int64_t segments = problem.k == 0 ? 1 : segment_count(problem.k);
    float chain[THREAD_M][THREAD_N];
#pragma unroll 1
    for (int64_t segment = 0; segment < segments; ++segment) {
      clear(chain);
      const int64_t begin = segment_begin(segment), end = segment_end(segment, problem.k);
      AsyncTileLoader<Tile, BLOCK_M, Tile::LEADING_A, ACCESS_A> a(
          a_data + begin * problem.a.col_stride, problem.a.row_stride, problem.a.col_stride,
          problem.m - row0());
      AsyncTileLoader<Tile, BLOCK_N, Tile::LEADING_B, ACCESS_B> b(
          b_data + begin * problem.b.row_stride, problem.b.col_stride, problem.b.row_stride,
          problem.n - column0());
      const int length = static_cast<int>(end - begin);
      const int steps = (length + BLOCK_K - 1) / BLOCK_K;

      int to_copy = length;  // values of k whose copy has not been started
      for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (to_copy > 0) {
          a.copy(shared_base + stage * STAGE_BYTES, to_copy);
          b.copy(shared_base + stage * STAGE_BYTES + A_BYTES, to_copy);
          to_copy -= BLOCK_K;
        }
        ptx::cp_async_commit_group();
      }
      ptx::cp_async_wait_group<STAGES - 2>();
      __syncthreads();

      // Patches are loaded one k ahead of their use, across the change of stage too.
      uint32_t read = 0, write = (STAGES - 1) * STAGE_BYTES;  // stages, as bytes
      const auto next = [](uint32_t stage) {
        return stage == (STAGES - 1) * STAGE_BYTES ? 0 : stage + STAGE_BYTES;
      };
      float a_patch[2][THREAD_M], b_patch[2][THREAD_N];
      const auto load_patches = [&](int k) {
        const float* a_row = reinterpret_cast<const float*>(shared + read) + patch_m;
        const float* b_row = reinterpret_cast<const float*>(shared + read + A_BYTES) + patch_n;
        load_patch<float, THREAD_M, VECTOR>(a_row + k * Tile::LEADING_A, STRIDE_M, a_patch[k % 2]);
        load_patch<float, THREAD_N, VECTOR>(b_row + k * Tile::LEADING_B, STRIDE_N, b_patch[k % 2]);
      };
      load_patches(0);
      const auto run_step = [&](auto copy) {
#pragma unroll
        for (int k = 0; k < BLOCK_K; ++k) {
          if (k < BLOCK_K - 1) {
            load_patches(k + 1);
          } else {
            ptx::cp_async_wait_group<STAGES - 2>();
            __syncthreads();  // the next stage is filled, and this one read by all
            read = next(read);
            load_patches(0);
          }
          if (k == 0) {
            copy(shared_base + write);
            ptx::cp_async_commit_group();
            write = next(write);
          }
          multiply_patches<THREAD_N>(a_patch[k % 2], b_patch[k % 2], chain);
        }
      };
      int step = 0;
      if (a.whole() && b.whole()) {
        const int whole_steps = length / BLOCK_K - (STAGES - 1);
#pragma unroll 1
        for (; step < whole_steps; ++step)
          run_step([&](uint32_t stage) {
            a.copy_whole(stage);
            b.copy_whole(stage + A_BYTES);
          });
        to_copy -= step * BLOCK_K;
      }
#pragma unroll 1
      for (; step < steps; ++step)
        run_step([&](uint32_t stage) {
          if (to_copy > 0) {
            a.copy(stage, to_copy);
            b.copy(stage + A_BYTES, to_copy);
            to_copy -= BLOCK_K;
          }
        });
      __syncthreads();  // before the next segment or batch entry fills the first stage

      constexpr int IN_FLIGHT = THREAD_M * THREAD_N > 64 ? 8 : 0;  // else the largest tile spills
      add_segment<Tile::THREADS, IN_FLIGHT>(args.totals, in_a_row(chain), segment, segments);
    }
    store_patch<float, VECTOR>(problem, entry, in_a_row(chain), [&](int v) -> Spot {
      const int i = v / (THREAD_N / VECTOR), j = v % (THREAD_N / VECTOR);
      return {row0() + patch_m + i / VECTOR * STRIDE_M + i % VECTOR,
              column0() + patch_n + j * STRIDE_N};
    });
  }
}

Kernel<ProblemAndTotals> register_tile_async_kernel(const RegisterTileWay& way) {
  const auto pick = [&](auto tile) -> Kernel<ProblemAndTotals> {
    using Tile = decltype(tile);
    constexpr Access MN = Access::AlongMN, ANY = Access::Elements;
    if (way.access.a == MN && way.access.b == MN) return &register_tile_async<Tile, MN, MN>;
    if (way.access.a == MN) return &register_tile_async<Tile, MN, ANY>;
    if (way.access.b == MN) return &register_tile_async<Tile, ANY, MN>;
    return &register_tile_async<Tile, ANY, ANY>;
  };
  switch (way.tile) {
    case TileSize::Large: return pick(AsyncTiles::Large{});
    case TileSize::Medium: return pick(AsyncTiles::Medium{});
    default: return pick(AsyncTiles::Small{});
  }
}

}  // namespace tiled
