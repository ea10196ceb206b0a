// register_tile's way from global to shared memory where cp.async exists: one operand's tile of
// ROWS (m for A, n for B) x BLOCK_K (k) is copied without passing the registers. It arrives k-major
// whatever the layout in global memory.
//
// AlongMN copies 16 bytes along the rows, which are side by side and are aligned. Elements takes
// any strides and any alignment, 4 bytes at a time; lanes go along k, so that what is
// contiguous along k is transposed on its way.
#pragma once

#include <cstdint>

#include "cuda/plan/access.h"
#include "cuda/ptx/cp_async.cuh"

namespace tiled {

template <typename Tile, int ROWS, int LEADING, Access ACCESS>
class AsyncTileLoader {
  static_assert(ACCESS != Access::AlongK, "k-major tiles have no vectors along k");
  static constexpr bool VECTORS = ACCESS == Access::AlongMN;
  static constexpr int FLOAT = sizeof(float);
  static constexpr int VECTOR = VECTORS ? Tile::VECTOR : 1;
  // A warp's copy of single elements covers 8 values of k, a sector of 32 bytes, of 4 rows: with
  // the tile's padding they fall into 32 different banks.
  static constexpr int LANES_K = 8;
  static constexpr int PER_K = ROWS / VECTOR;  // vectors
  static constexpr int ROW_STEP = VECTORS ? 0 : Tile::THREADS / LANES_K;
  static constexpr int K_STEP = VECTORS ? Tile::THREADS / PER_K : 0;
  static constexpr int PASSES = VECTORS ? 1 : Tile::BLOCK_K / LANES_K;  // along k, of each load
  static constexpr int LOADS = ROWS * Tile::BLOCK_K / VECTOR / Tile::THREADS / PASSES;
  static constexpr int LOAD_BYTES = (ROW_STEP + K_STEP * LEADING) * FLOAT;  // in shared memory
  static constexpr int PASS_BYTES = LANES_K * LEADING * FLOAT;              // in shared memory
  static_assert(LOADS * PASSES * VECTOR * Tile::THREADS == ROWS * Tile::BLOCK_K,
                "every thread makes the same number of copies");
  static_assert(!VECTORS || Tile::THREADS % PER_K == 0, "the threads cover whole rows of k");

 public:
  // `data` is the tile's first row at the segment's first k; `rows` of the tile are in the matrix.
  __device__ AsyncTileLoader(const float* data, int64_t row_stride, int64_t k_stride, int64_t rows)
      : pass_bytes_(LANES_K * k_stride * FLOAT),
        load_bytes_((ROW_STEP * row_stride + K_STEP * k_stride) * FLOAT),
        step_bytes_(Tile::BLOCK_K * k_stride * FLOAT),
        rows_(rows < ROWS ? static_cast<int>(rows) : ROWS) {
    const int thread = threadIdx.x;
    row_ = VECTORS ? thread % PER_K * VECTOR : thread / LANES_K;
    k_ = VECTORS ? thread / PER_K : thread % LANES_K;
    data_ = reinterpret_cast<const char*>(data + row_ * row_stride + k_ * k_stride);
    shared_ = (k_ * LEADING + row_) * FLOAT;
  }

  // Whether every row of the tile is in the matrix; the same for all threads of a block.
  __device__ bool whole() const { return rows_ == ROWS; }

  // Start copying the next step of a whole tile, all BLOCK_K of it, to the tile at `stage`.
  __device__ void copy_whole(uint32_t stage) {  // shared address
    const uint32_t shared = stage + shared_;
    const char* from = data_;
#pragma unroll
    for (int load = 0; load < LOADS; ++load, from += load_bytes_)
#pragma unroll
      for (int pass = 0; pass < PASSES; ++pass) {
        const uint32_t to = shared + load * LOAD_BYTES + pass * PASS_BYTES;
        if constexpr (VECTORS)
          ptx::cp_async_16(to, from);
        else
          ptx::cp_async_4(to, from + pass * pass_bytes_);
      }
    data_ += step_bytes_;
  }

  // The same at the edge, where `k_left` values of k exist (more than BLOCK_K is fine). What is
  // outside the matrix becomes zero; no address outside it is read.
  __device__ void copy(uint32_t stage, int k_left) {
    const uint32_t shared = stage + shared_;
#pragma unroll
    for (int load = 0; load < LOADS; ++load)
#pragma unroll
      for (int pass = 0; pass < PASSES; ++pass) {
        const int row = row_ + load * ROW_STEP;
        const int k = k_ + load * K_STEP + pass * LANES_K;
        const int rows = k < k_left ? rows_ - row : 0;  // that exist from this one on
        const int count = rows < 0 ? 0 : rows < VECTOR ? rows : VECTOR;
        const char* const from = data_ + load * load_bytes_ + pass * pass_bytes_;
        const uint32_t to = shared + load * LOAD_BYTES + pass * PASS_BYTES;
        if constexpr (VECTORS)
          ptx::cp_async_16(to, from, count * FLOAT);
        else
          ptx::cp_async_4(to, from, count * FLOAT);
      }
    data_ += step_bytes_;
  }

 private:
  const char* data_;    // this thread's first element of the next step
  int64_t pass_bytes_;  // from a load to its next pass
  int64_t load_bytes_;  // from a load to the next
  int64_t step_bytes_;  // from a step to the next
  uint32_t shared_;     // bytes from the tile's start to this thread's first element
  int rows_;            // of the tile, in the matrix
  int row_, k_;         // this thread's first load in the tile
};

}  // namespace tiled
