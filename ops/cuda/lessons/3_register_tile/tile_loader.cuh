// register_tile's way from global to shared memory. A TileLoader moves one operand's tile of
// ROWS (m for A, n for B) x BLOCK_K (k). It holds the tile in registers between fetch() and
// store(), so that the loads of the next step are under way while the current one computes.
#pragma once

#include <type_traits>

#include "cuda/parts/arithmetic/element.cuh"
#include "cuda/plan/access.h"

namespace tiled {

// The floating types that the planner may have read by vectors.
template <typename T>
constexpr bool HAS_VECTOR_ACCESS = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                                   std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

// Elements of one load from global memory: 16 bytes, but at most 4 elements, so that a vector
// along k spans at most half a step of 8.
template <typename T, Access ACCESS>
constexpr int LOAD_VECTOR = ACCESS == Access::Elements ? 1
                            : sizeof(T) <= 4           ? 4
                                                       : 16 / sizeof(T);

template <typename T, typename Tile, int ROWS, int LEADING, Access ACCESS>
class TileLoader {
  using Acc = Accumulator<T>;
  static constexpr int VECTOR = LOAD_VECTOR<T, ACCESS>;
  static constexpr int K_VECTOR = ACCESS == Access::AlongK ? VECTOR : 1;
  static constexpr int ROW_VECTOR = ACCESS == Access::AlongMN ? VECTOR : 1;
  static constexpr int LOADS = ROWS * Tile::BLOCK_K / VECTOR / Tile::THREADS;  // of each thread
  static_assert(LOADS * VECTOR * Tile::THREADS == ROWS * Tile::BLOCK_K,
                "every thread makes the same number of loads");
  static_assert(Tile::THREADS % (Tile::BLOCK_K / K_VECTOR) == 0 &&
                    Tile::THREADS % (ROWS / ROW_VECTOR) == 0,
                "the threads cover whole rows, or whole columns, of the tile");
  struct alignas(VECTOR * sizeof(T)) Vector {
    T element[VECTOR];
  };
  struct alignas(VECTOR * sizeof(Acc)) WideVector {
    Acc element[VECTOR];
  };

 public:
  // `data` is the tile's first row at the segment's first k; `rows` of the tile are in the matrix.
  __device__ TileLoader(const T* data, int64_t row_stride, int64_t k_stride, int64_t rows)
      : row_stride_(row_stride), k_stride_(k_stride), rows_(rows < ROWS ? int(rows) : ROWS) {
    // Neighbouring threads take neighbours in memory: along k, or along the rows.
    constexpr int PER_ROW = Tile::BLOCK_K / K_VECTOR, PER_K = ROWS / ROW_VECTOR;
    const int thread = threadIdx.x;
    if (ACCESS == Access::AlongK || (ACCESS == Access::Elements && k_stride <= row_stride)) {
      row_ = thread / PER_ROW, row_step_ = Tile::THREADS / PER_ROW;
      k_ = thread % PER_ROW * K_VECTOR, k_step_ = 0;
    } else {
      row_ = thread % PER_K * ROW_VECTOR, row_step_ = 0;
      k_ = thread / PER_K, k_step_ = Tile::THREADS / PER_K;
    }
    data_ = data + row_ * row_stride + k_ * k_stride;
    load_stride_ = row_step_ * row_stride + k_step_ * k_stride;
  }

  // Whether every row of the tile is in the matrix; the same for all threads of a block.
  __device__ bool whole() const { return rows_ == ROWS; }

  // Start loading the next step of a whole tile, all BLOCK_K of it.
  __device__ void fetch_whole() {
#pragma unroll
    for (int load = 0; load < LOADS; ++load)
      stage_[load] = *reinterpret_cast<const Vector*>(data_ + load * load_stride_);
    data_ += Tile::BLOCK_K * k_stride_;
  }

  // Start loading the next step, of which `k_left` values of k exist (more than BLOCK_K is fine).
  // What is outside the matrix becomes zero; no address outside it is touched.
  __device__ void fetch(int k_left) {
#pragma unroll
    for (int load = 0; load < LOADS; ++load) {
      const int row = row_ + load * row_step_;
      const int k = k_ + load * k_step_;
      if (row + ROW_VECTOR <= rows_ && k + K_VECTOR <= k_left) {
        stage_[load] = *reinterpret_cast<const Vector*>(data_ + load * load_stride_);
      } else {
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) {
          const bool inside =
              row + (ROW_VECTOR > 1 ? i : 0) < rows_ && k + (K_VECTOR > 1 ? i : 0) < k_left;
          stage_[load].element[i] = inside ? data_[load * load_stride_ + i] : T{};
        }
      }
    }
    data_ += Tile::BLOCK_K * k_stride_;
  }

  // Widen the fetched step into shared memory, k-major whatever the layout in global memory.
  __device__ void store(Acc* tile) const {  // [BLOCK_K][LEADING]
#pragma unroll
    for (int load = 0; load < LOADS; ++load) {
      const int row = row_ + load * row_step_;
      const int k = k_ + load * k_step_;
      WideVector wide;
#pragma unroll
      for (int i = 0; i < VECTOR; ++i) wide.element[i] = widen(stage_[load].element[i]);
      if (ROW_VECTOR > 1) {
        *reinterpret_cast<WideVector*>(tile + k * LEADING + row) = wide;
      } else {
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) tile[(k + i) * LEADING + row] = wide.element[i];
      }
    }
  }

 private:
  const T* data_;                    // this thread's first element of the next step
  int64_t row_stride_, k_stride_;    // elements
  int64_t load_stride_;              // elements between this thread's loads of a step
  int rows_;                         // of the tile, in the matrix
  int row_, k_, row_step_, k_step_;  // this thread's loads in the tile
  Vector stage_[LOADS];
};

}  // namespace tiled
