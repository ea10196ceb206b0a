// Lesson 4, mma_tile. The multiply-adds go to the tensor cores: a warp multiplies fragments that
// its lanes load from a tile in shared memory. The loads from global memory are single elements, so
// every stride and alignment will do, and an operand needs no copy first: the rung for problems too
// small to prepare, and the one that takes what the Hopper rungs cannot.
//
//     shared memory, in words of 32 bits            a warp: 32 x 32 of C, 2 x 4 tiles of 16 x 8
//     A [64 rows][16 words of k + 4]                  +----+----+   for 16 x 8 of C and 8 words
//     B [64 columns][16 words of k + 4]               | w0 | w1 |   of k: 4 words of A and 2 of B
//     the 4 words of padding put the 8 rows and 4     +----+----+   a lane (ptx/mma.cuh)
//     words of a fragment into 32 different banks     | w2 | w3 |
//                                                     +----+----+
//
// Preconditions: none beyond the dtypes fp16, bf16, and fp32 as tf32, whose values are rounded.
// Bound by the loads: a thread moves 2 or 4 bytes at a time. 5 % of cuBLAS at 4096, bf16, on an
// H200, by tiles of 64 x 64; a small C has a tile of half the size, in steps twice as long. Next:
// lesson 5 loads by boxes and multiplies straight from shared memory.
#include "core/segments.h"
#include "cuda/lessons/4_mma_tile/kernel.h"
#include "cuda/lessons/4_mma_tile/tiles.h"
#include "cuda/parts/arithmetic/thread_tile.cuh"
#include "cuda/ptx/cvt.cuh"
#include "cuda/ptx/mma.cuh"

namespace tiled {

// One operand's way to shared memory: ROWS of m or n by BLOCK_K of k, held in registers between
// fetch() and store().
template <typename Tile, typename T>
class ElementLoader {
 public:
  static constexpr int ROWS = Tile::ROWS, BLOCK_K = Tile::WORDS * 4 / sizeof(T);  // elements

  // `data` is the tile's first row at k = 0; `rows` of the tile are in the matrix.
  __device__ ElementLoader(const T* data, int64_t row_stride, int64_t k_stride, int64_t rows)
      : k_stride_(k_stride), rows_(rows < ROWS ? int(rows) : ROWS) {
    // Lanes go along the smaller stride; a thread's elements are a constant step apart.
    const int thread = threadIdx.x;
    const bool along_k = k_stride <= row_stride;
    row_ = along_k ? thread / BLOCK_K : thread % ROWS;
    k_ = along_k ? thread % BLOCK_K : thread / ROWS;
    row_step_ = along_k ? Tile::THREADS / BLOCK_K : 0;
    k_step_ = along_k ? 0 : Tile::THREADS / ROWS;
    data_ = data + row_ * row_stride + k_ * k_stride;
    step_ = row_step_ * row_stride + k_step_ * k_stride;
  }

  // Elements from k on, `left` of which exist.
  __device__ void fetch(int64_t k, int left) {
    const T* at = data_ + k * k_stride_;
#pragma unroll
    for (int load = 0; load < LOADS; ++load, at += step_)
      if (row_ + load * row_step_ < rows_ && k_ + load * k_step_ < left)
        elements_[load] = *at;
      else
        elements_[load] = T(0.0f);
  }

  __device__ void store(uint32_t* tile) const {
    T* to = reinterpret_cast<T*>(tile) + row_ * PITCH + k_;
    const int step = row_step_ * PITCH + k_step_;
#pragma unroll
    for (int load = 0; load < LOADS; ++load) to[load * step] = ptx::round_to_tf32(elements_[load]);
  }

 private:
  static constexpr int LOADS = ROWS * BLOCK_K / Tile::THREADS;
  static constexpr int PITCH = (Tile::WORDS + Tile::PADDING) * 4 / sizeof(T);  // elements
  const T* data_;
  int64_t k_stride_, step_;
  int rows_, row_, k_, row_step_, k_step_;
  T elements_[LOADS];
};

template <typename Tile, typename T>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    mma_tile(const __grid_constant__ Problem problem) {
  constexpr int ROWS = Tile::ROWS, PITCH = Tile::WORDS + Tile::PADDING;
  constexpr int BLOCK_K = ElementLoader<Tile, T>::BLOCK_K;
  __shared__ uint32_t a_tile[ROWS * PITCH], b_tile[ROWS * PITCH];
  const int64_t tiles_n = (problem.n - 1) / ROWS + 1;
  const int64_t row0 = blockIdx.x / tiles_n * ROWS, column0 = blockIdx.x % tiles_n * ROWS;
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  constexpr int WARP_ROWS = Tile::WARP_ROWS, TILES_M = WARP_ROWS / 16, TILES_N = WARP_ROWS / 8;
  const int warp_m = warp / 2 * WARP_ROWS, warp_n = warp % 2 * WARP_ROWS;

  for (int64_t entry = blockIdx.y; entry < problem.batch; entry += gridDim.y) {
    ElementLoader<Tile, T> a(static_cast<const T*>(problem.a.data) +
                                 entry * problem.a.batch_stride + row0 * problem.a.row_stride,
                             problem.a.row_stride, problem.a.col_stride, problem.m - row0);
    ElementLoader<Tile, T> b(static_cast<const T*>(problem.b.data) +
                                 entry * problem.b.batch_stride + column0 * problem.b.col_stride,
                             problem.b.col_stride, problem.b.row_stride, problem.n - column0);
    float total[TILES_M][TILES_N][4] = {};
    for (int64_t segment = 0; segment < segment_count(problem.k); ++segment) {
      float chain[TILES_M][TILES_N][4] = {};
      const int64_t end = segment_end(segment, problem.k);
      int64_t k = segment_begin(segment);
      const auto left = [&] { return static_cast<int>(end - k < BLOCK_K ? end - k : BLOCK_K); };
      a.fetch(k, left());
      b.fetch(k, left());
      while (k < end) {
        a.store(a_tile);
        b.store(b_tile);
        __syncthreads();
        k += BLOCK_K;
        if (k < end) {  // on its way while this step computes
          a.fetch(k, left());
          b.fetch(k, left());
        }
#pragma unroll
        for (int word = 0; word < Tile::WORDS; word += 8) {
          uint32_t a_fragment[TILES_M][4], b_fragment[TILES_N][2];
#pragma unroll
          for (int i = 0; i < TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j)
              a_fragment[i][j] =
                  a_tile[(warp_m + 16 * i + g + j % 2 * 8) * PITCH + word + t + j / 2 * 4];
#pragma unroll
          for (int i = 0; i < TILES_N; ++i)
#pragma unroll
            for (int j = 0; j < 2; ++j)
              b_fragment[i][j] = b_tile[(warp_n + 8 * i + g) * PITCH + word + t + j * 4];
#pragma unroll
          for (int i = 0; i < TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < TILES_N; ++j)
              ptx::mma(T(), chain[i][j], a_fragment[i], b_fragment[j]);
        }
        __syncthreads();
      }
#pragma unroll
      for (int i = 0; i < 4 * TILES_M * TILES_N; ++i) in_a_row(total)[i] += in_a_row(chain)[i];
    }
    store_thread_tile<T, 2>(problem, entry, in_a_row(total), [&](int v) -> Spot {
      return {row0 + warp_m + v / 2 / TILES_N * 16 + v % 2 * 8 + g,
              column0 + warp_n + v / 2 % TILES_N * 8 + 2 * t};
    });
  }
}

namespace {

template <typename... Tiles>
Kernel<Problem> kernel_of(TileList<Tiles...>, DType dtype, int tile) {
  constexpr Kernel<Problem> FP16[] = {&mma_tile<Tiles, __half>...};
  constexpr Kernel<Problem> BF16[] = {&mma_tile<Tiles, __nv_bfloat16>...};
  constexpr Kernel<Problem> TF32[] = {&mma_tile<Tiles, float>...};
  return (dtype == DType::Float16 ? FP16 : dtype == DType::BFloat16 ? BF16 : TF32)[tile];
}

}  // namespace

Kernel<Problem> mma_tile_kernel(const Problem& problem, int tile) {
  return kernel_of(MmaTiles(), problem.dtype, tile);
}

}  // namespace tiled
