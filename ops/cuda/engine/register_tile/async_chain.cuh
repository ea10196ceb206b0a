// A block's multiply-adds over a stretch of k, for register_tile's kernels with cp.async.
#pragma once

#include "cuda/engine/register_tile/async_tile_loader.cuh"
#include "cuda/parts/arithmetic/thread_tile.cuh"
#include "cuda/parts/schedule/raster.cuh"

namespace tiled {

constexpr int64_t ASYNC_RASTER_GROUP = 8;  // rows of tiles

// Where a thread tile is in the tile. A warp is 4 x 8 threads; warps are laid side by side
// along n first. Lanes are numbered so that lane i reads the same vector of B as i ^ 1 and the same
// vector of A as i ^ 2: then the hardware serves a 16-byte load of half a warp at once, instead of
// a quarter.
template <typename Tile>
struct ThreadTileOf {
  static constexpr int VECTOR = Tile::VECTOR;
  static constexpr int STRIDE_M = 4 * VECTOR, STRIDE_N = 8 * VECTOR;  // between its vectors
  int m, n;                                                           // its first row and column

  __device__ __forceinline__ ThreadTileOf() {
    constexpr int WARPS_N = Tile::BLOCK_N / Tile::THREAD_N / 8;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    m = warp / WARPS_N * (4 * Tile::THREAD_M) + (lane / 16 * 2 + lane % 2) * VECTOR;
    n = warp % WARPS_N * (8 * Tile::THREAD_N) + lane / 2 % 8 * VECTOR;
  }
};

// Where a tile of C is read, at the edge from further back (read_from).
template <typename Tile>
struct ReadFrom {
  int64_t row, column;
  __device__ __forceinline__ ReadFrom(const Problem& problem, int64_t row0, int64_t column0)
      : row(read_from<Tile::BLOCK_M, Tile::VECTOR>(row0, problem.m)),
        column(read_from<Tile::BLOCK_N, Tile::VECTOR>(column0, problem.n)) {}
};

// chain += A . B over `length` values of k. `shared` is the ring of STAGES, each A's tile
// [BLOCK_K][LEADING_A] and then B's [BLOCK_K][LEADING_B]; `a_data` and `b_data` are the tile's
// first row of A and column of B at the first k, and `rows` and `columns` how many are in the
// matrices from there on. Ends when all threads have read the last stage.
template <typename Tile, Access ACCESS_A, Access ACCESS_B>
__device__ __forceinline__ void multiply_stretch(const Problem& problem, char* shared,
                                                 const float* a_data, const float* b_data,
                                                 int64_t rows, int64_t columns, int length,
                                                 const ThreadTileOf<Tile>& thread_tile,
                                                 float (&chain)[Tile::THREAD_M][Tile::THREAD_N]) {
  constexpr int BLOCK_M = Tile::BLOCK_M, BLOCK_N = Tile::BLOCK_N, BLOCK_K = Tile::BLOCK_K;
  constexpr int THREAD_M = Tile::THREAD_M, THREAD_N = Tile::THREAD_N, VECTOR = Tile::VECTOR;
  constexpr int STRIDE_M = ThreadTileOf<Tile>::STRIDE_M, STRIDE_N = ThreadTileOf<Tile>::STRIDE_N;
  constexpr int STAGES = Tile::STAGES;
  constexpr int LEADING_A = Tile::leading(BLOCK_M, ACCESS_A == Access::AlongMN);
  constexpr int LEADING_B = Tile::leading(BLOCK_N, ACCESS_B == Access::AlongMN);
  constexpr uint32_t A_BYTES = BLOCK_K * LEADING_A * 4;
  constexpr uint32_t STAGE_BYTES = Tile::STAGE_ELEMENTS * 4;
  const uint32_t shared_base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));

  AsyncTileLoader<Tile, BLOCK_M, LEADING_A, ACCESS_A> a(a_data, problem.a.row_stride,
                                                        problem.a.col_stride, rows);
  AsyncTileLoader<Tile, BLOCK_N, LEADING_B, ACCESS_B> b(b_data, problem.b.col_stride,
                                                        problem.b.row_stride, columns);
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

  // Values are loaded one k ahead of their use, across the change of stage too.
  uint32_t read = 0, write = (STAGES - 1) * STAGE_BYTES;  // stages, as bytes
  const auto next = [](uint32_t stage) {
    return stage == (STAGES - 1) * STAGE_BYTES ? 0 : stage + STAGE_BYTES;
  };
  float a_fragment[2][THREAD_M], b_fragment[2][THREAD_N];
  const auto load_fragments = [&](int k) {
    const float* a_row = reinterpret_cast<const float*>(shared + read) + thread_tile.m;
    const float* b_row = reinterpret_cast<const float*>(shared + read + A_BYTES) + thread_tile.n;
    load_thread_tile<float, THREAD_M, VECTOR>(a_row + k * LEADING_A, STRIDE_M, a_fragment[k % 2]);
    load_thread_tile<float, THREAD_N, VECTOR>(b_row + k * LEADING_B, STRIDE_N, b_fragment[k % 2]);
  };
  load_fragments(0);
  const auto run_step = [&](auto copy) {
#pragma unroll
    for (int k = 0; k < BLOCK_K; ++k) {
      if (k < BLOCK_K - 1) {
        load_fragments(k + 1);
      } else {
        ptx::cp_async_wait_group<STAGES - 2>();
        __syncthreads();  // the next stage is filled, and this one read by all
        read = next(read);
        load_fragments(0);
      }
      if (k == 0) {
        copy(shared_base + write);
        ptx::cp_async_commit_group();
        write = next(write);
      }
      multiply_thread_tiles<THREAD_N>(a_fragment[k % 2], b_fragment[k % 2], chain);
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
  __syncthreads();  // before the next chain fills the first stage
}

// The same tile to C, rounded once, through the epilogue. What is before it is another block's.
template <typename Tile>
__device__ __forceinline__ void store_chain(const Problem& problem, int64_t entry, int64_t row0,
                                            int64_t column0, const ThreadTileOf<Tile>& thread_tile,
                                            float (&chain)[Tile::THREAD_M][Tile::THREAD_N]) {
  constexpr int VECTOR = Tile::VECTOR, VECTORS_N = Tile::THREAD_N / VECTOR;
  const ReadFrom<Tile> from(problem, row0, column0);
  const int first_row = static_cast<int>(row0 - from.row);
  const int first_column = static_cast<int>(column0 - from.column);
  store_thread_tile<float, VECTOR>(problem, entry, in_a_row(chain), [&](int v) -> Spot {
    const int i = v / VECTORS_N, j = v % VECTORS_N;
    const int row = thread_tile.m + i / VECTOR * thread_tile.STRIDE_M + i % VECTOR;
    const int column = thread_tile.n + j * thread_tile.STRIDE_N;
    const bool is_own = row >= first_row && column >= first_column;
    return {is_own ? from.row + row : problem.m, from.column + column};
  });
}

}  // namespace tiled
