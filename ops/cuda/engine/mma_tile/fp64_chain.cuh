// A block's multiply-adds over a stretch of k, for mma_tile's kernels in fp64.
#pragma once

#include "cuda/engine/mma_tile/fp64_operand.cuh"
#include "cuda/parts/arithmetic/thread_tile.cuh"
#include "cuda/parts/schedule/raster.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/shared.cuh"

namespace tiled {

constexpr int64_t FP64_RASTER_GROUP = 16;  // rows of tiles

// A lane's accumulators: of each tile of 16 x 8 of its warp's, two rows of two columns.
template <typename Tile>
using Fp64Chain = double[Tile::WARP_M / 16][Tile::WARP_N / 8][4];

// Where a lane's first accumulator is in the block's tile, but for row g and columns 2 t.
template <typename Tile>
struct Fp64Lane {
  int warp_m, warp_n, g, t;

  __device__ __forceinline__ Fp64Lane() {
    constexpr int WARPS_N = Tile::BLOCK_N / Tile::WARP_N;
    const int warp = threadIdx.x / 32;
    g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    warp_m = warp / WARPS_N * Tile::WARP_M, warp_n = warp % WARPS_N * Tile::WARP_N;
  }
};

// chain += A . B over `length` values of k. `shared` is the address of the ring of STAGES, each A's
// tile and then B's; `a_data` and `b_data` are the tile's first row of A and column of B at the
// first k, and `rows` and `columns` how many are in the matrices. Ends when all threads have read
// the last stage.
template <typename Tile, bool A_ALONG_M, bool B_ALONG_N>
__device__ __forceinline__ void multiply_fp64(const Problem& problem, uint32_t shared,
                                              const double* a_data, const double* b_data, int rows,
                                              int columns, int length, const Fp64Lane<Tile>& lane,
                                              Fp64Chain<Tile>& chain) {
  constexpr int BLOCK_M = Tile::BLOCK_M, BLOCK_N = Tile::BLOCK_N, BLOCK_K = Tile::BLOCK_K;
  constexpr int STAGES = Tile::STAGES, MMA_K = 8, PARTS = BLOCK_K / MMA_K;
  constexpr int TILES_M = Tile::WARP_M / 16, TILES_N = Tile::WARP_N / 8;  // of a warp
  constexpr uint32_t B_AT = Tile::TILE_BYTES(BLOCK_M), STAGE_BYTES = Tile::STAGE_BYTES;
  using A = Fp64Operand<Tile, BLOCK_M, A_ALONG_M>;
  using B = Fp64Operand<Tile, BLOCK_N, B_ALONG_N>;
  const auto a_strides = [&]() -> Fp64Strides {
    return {problem.a.row_stride, problem.a.col_stride, problem.a.alignment == 16};
  };
  const auto b_strides = [&]() -> Fp64Strides {
    return {problem.b.col_stride, problem.b.row_stride, problem.b.alignment == 16};
  };
  const uint32_t a_lane = shared + A::at(lane.warp_m + lane.g, lane.t);
  const uint32_t b_lane = shared + B_AT + B::at(lane.warp_n + lane.g, lane.t);
  const int steps = (length + BLOCK_K - 1) / BLOCK_K;
  A a(a_data, a_strides());
  B b(b_data, b_strides());

  int to_copy = length;  // values of k whose copy has not been started
  const auto copy_step = [&](uint32_t stage) {
    if (to_copy <= 0) return;
    a.copy(stage, rows, to_copy, a_strides());
    b.copy(stage + B_AT, columns, to_copy, b_strides());
    to_copy -= BLOCK_K;
  };
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    copy_step(shared + stage * STAGE_BYTES);
    ptx::cp_async_commit_group();
  }
  ptx::cp_async_wait_group<STAGES - 2>();
  __syncthreads();

  uint32_t read = 0, write = (STAGES - 1) * STAGE_BYTES;  // stages, as bytes
  const auto next = [](uint32_t stage) {
    return stage == (STAGES - 1) * STAGE_BYTES ? 0 : stage + STAGE_BYTES;
  };
  // Fragments of one part: A's are loaded again as soon as a row of tiles is done with them, B's
  // beside those in use.
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
  // The next stage is filled, and all have read this one but for what they multiply now.
  const auto turn_over = [&] {
    ptx::cp_async_wait_group<STAGES - 2>();
    __syncthreads();
    read = next(read);
  };
  // `copy` starts a share of the copies, of SHARES a step, or all of them as the first. The order
  // of all this is worth 10 % and more (docs/decisions/025): copies go out before
  // the loads of their row, not behind them, and products are on their way while warps wait for
  // each other.
  constexpr int SHARES = (PARTS - 1) * TILES_M;
  static_assert(TILES_N >= 2, "the step turns over among a row's products");
  const auto run_step = [&](auto copy) {
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
      const bool is_last = part == PARTS - 1;
      const int next_part = (part + 1) % PARTS;
#pragma unroll
      for (int i = 0; i < TILES_M; ++i) {
#pragma unroll
        for (int column = 0; column < TILES_N; ++column) {
          // Every other row runs backwards, and so begins with the fragment at hand.
          const int j = i % 2 == 0 ? column : TILES_N - 1 - column;
          ptx::mma(chain[i][j], a_part[i], b_parts[part % 2][j]);
          if (!is_last && column == 0) copy(part * TILES_M + i);
          if (is_last && i == 0 && column == TILES_N / 2 - 1) turn_over();
        }
        load_a(i, next_part);
#pragma unroll
        for (int j = i * TILES_N / TILES_M; j < (i + 1) * TILES_N / TILES_M; ++j)
          load_b(j, next_part, (part + 1) % 2);
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
    const auto run_whole_steps = [&](auto vectors) {
      constexpr bool VECTORS = decltype(vectors)::value;
#pragma unroll 1
      for (; step < whole_steps; ++step)
        run_step([&](int share) {
#pragma unroll
          for (int i = share * COPIES / SHARES; i < (share + 1) * COPIES / SHARES; ++i)
            if (i < A::COPIES)
              a.template copy_whole<VECTORS>(shared + write, i, a_strides());
            else
              b.template copy_whole<VECTORS>(shared + write + B_AT, i - A::COPIES, b_strides());
        });
    };
    if (a_strides().vectors && b_strides().vectors)
      run_whole_steps(std::true_type());
    else
      run_whole_steps(std::false_type());
    to_copy -= step * BLOCK_K;
  }
#pragma unroll 1
  for (; step < steps; ++step)
    run_step([&](int share) {
      if (share == 0) copy_step(shared + write);
    });
  __syncthreads();  // before the next stretch fills the first stage
}

// The tile of C whose first row and column these are: chain += A . B over k in [begin, end).
template <typename Tile, bool A_ALONG_M, bool B_ALONG_N>
__device__ __forceinline__ void multiply_fp64_tile(const Problem& problem, uint32_t shared,
                                                   int64_t entry, int64_t row0, int64_t column0,
                                                   int64_t begin, int64_t end,
                                                   const Fp64Lane<Tile>& lane,
                                                   Fp64Chain<Tile>& chain) {
  const int64_t row = read_from<Tile::BLOCK_M, 2>(row0, problem.m);
  const int64_t column = read_from<Tile::BLOCK_N, 2>(column0, problem.n);
  multiply_fp64<Tile, A_ALONG_M, B_ALONG_N>(
      problem, shared,
      static_cast<const double*>(problem.a.data) + entry * problem.a.batch_stride +
          row * problem.a.row_stride + begin * problem.a.col_stride,
      static_cast<const double*>(problem.b.data) + entry * problem.b.batch_stride +
          column * problem.b.col_stride + begin * problem.b.row_stride,
      static_cast<int>(min(problem.m - row, int64_t{Tile::BLOCK_M})),
      static_cast<int>(min(problem.n - column, int64_t{Tile::BLOCK_N})),
      static_cast<int>(end - begin), lane, chain);
}

// The same tile to C, through the epilogue. What is before it is another block's.
template <typename Tile>
__device__ __forceinline__ void store_fp64(const Problem& problem, int64_t entry, int64_t row0,
                                           int64_t column0, const Fp64Lane<Tile>& lane,
                                           Fp64Chain<Tile>& chain) {
  constexpr int TILES_N = Tile::WARP_N / 8;
  const int64_t from_row = read_from<Tile::BLOCK_M, 2>(row0, problem.m);
  const int64_t from_column = read_from<Tile::BLOCK_N, 2>(column0, problem.n);
  store_thread_tile<double, 2>(problem, entry, in_a_row(chain), [&](int v) -> Spot {
    const int i = v / 2 / TILES_N, j = v / 2 % TILES_N;  // the tile of two vectors
    const int64_t row = from_row + lane.warp_m + 16 * i + v % 2 * 8 + lane.g;
    const int64_t column = from_column + lane.warp_n + 8 * j + 2 * lane.t;
    return {row < row0 || column < column0 ? problem.m : row, column};
  });
}

}  // namespace tiled
