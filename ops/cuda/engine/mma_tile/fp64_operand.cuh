// One operand of mma_tile in fp64: its tile of ROWS (m for A, n for B) x BLOCK_K (k) on its way
// from global memory by cp.async, and from there into the fragments of mma.sync. It stays in its
// own layout in global memory: along m or n, or along k.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/plan/sides.h"
#include "cuda/ptx/cp_async.cuh"

namespace tiled {

// Where an operand's elements are, in elements, and whether copies of 16 bytes may be made of
// neighbours. Kept apart from the loader: these are the launch's, and cost no thread a register.
struct Fp64Strides {
  int64_t row, k;
  bool vectors;
};

template <typename Tile, int ROWS, bool ALONG_ROWS>
class Fp64Operand {
  static constexpr int ELEMENT = sizeof(double);
  // A copy is of two neighbours; neighbouring threads copy neighbours.
  static constexpr int LENGTH = ALONG_ROWS ? ROWS : Tile::BLOCK_K;  // of a row of the tile
  static constexpr int PITCH = LENGTH + Tile::PADDING;              // elements
  static constexpr int PER_ROW = LENGTH / 2;                        // copies
  static constexpr int STEP = Tile::THREADS / PER_ROW;  // rows between a thread's copies
  static_assert(Tile::THREADS % PER_ROW == 0, "the threads cover whole rows");

 public:
  static constexpr int COPIES = ROWS * Tile::BLOCK_K / 2 / Tile::THREADS;  // of a thread, a step
  static_assert(COPIES * 2 * Tile::THREADS == ROWS * Tile::BLOCK_K,
                "every thread makes the same number of copies");

  // `data` is the tile's first row at the segment's first k.
  __device__ Fp64Operand(const double* data, Fp64Strides strides)
      : data_(data + row() * strides.row + k() * strides.k), shared_(at(row(), k())) {}

  // Start one of the next step's copies, in order, of a tile that is in the matrix as a whole.
  // VECTORS: of 16 bytes, which is known. A question here would be one for each copy, and the
  // copies that it leaves out are issued all the same, as instructions that do nothing.
  template <bool VECTORS>
  __device__ __forceinline__ void copy_whole(uint32_t stage, int index, Fp64Strides strides) {
    const uint32_t to = stage + shared_ + index * STEP * PITCH * ELEMENT;
    if (VECTORS || strides.vectors) {
      ptx::cp_async_16(to, data_);
    } else {
      ptx::cp_async_8(to, data_);
      ptx::cp_async_8(to + ELEMENT, data_ + between_neighbours(strides));
    }
    const int64_t next = between_copies(strides);
    data_ += index < COPIES - 1 ? next : Tile::BLOCK_K * strides.k - (COPIES - 1) * next;
  }

  // The whole next step at the edge: `rows` of the tile and `k_left` values of k exist (more than
  // BLOCK_K is fine). What is outside the matrix becomes zero; no address outside it is read.
  __device__ void copy(uint32_t stage, int rows, int k_left, Fp64Strides strides) {
#pragma unroll
    for (int i = 0; i < COPIES; ++i) {
      const int r = ALONG_ROWS ? row() : row() + i * STEP, p = ALONG_ROWS ? k() + i * STEP : k();
      const bool inside = r < rows && p < k_left;
      const bool neighbour = inside && (ALONG_ROWS ? r + 1 < rows : p + 1 < k_left);
      const double* const from = data_ + i * between_copies(strides);
      const uint32_t to = stage + shared_ + i * STEP * PITCH * ELEMENT;
      if (strides.vectors) {
        ptx::cp_async_16(to, from, (inside + neighbour) * ELEMENT);
      } else {
        ptx::cp_async_8(to, from, inside * ELEMENT);
        ptx::cp_async_8(to + ELEMENT, from + (neighbour ? between_neighbours(strides) : 0),
                        neighbour * ELEMENT);
      }
    }
    data_ += Tile::BLOCK_K * strides.k;
  }

  // Bytes from the tile's begin to one of its elements. Offsets add up.
  static __device__ __forceinline__ uint32_t at(int row, int k) {
    return (row * (ALONG_ROWS ? 1 : PITCH) + k * (ALONG_ROWS ? PITCH : 1)) * ELEMENT;
  }

 private:
  // This thread's first copy in the tile.
  static __device__ __forceinline__ int row() {
    return ALONG_ROWS ? threadIdx.x % PER_ROW * 2 : threadIdx.x / PER_ROW;
  }
  static __device__ __forceinline__ int k() {
    return ALONG_ROWS ? threadIdx.x / PER_ROW : threadIdx.x % PER_ROW * 2;
  }
  static __device__ __forceinline__ int64_t between_copies(Fp64Strides strides) {
    return STEP * (ALONG_ROWS ? strides.k : strides.row);
  }
  static __device__ __forceinline__ int64_t between_neighbours(Fp64Strides strides) {
    return ALONG_ROWS ? strides.row : strides.k;
  }

  const double* data_;  // this thread's next copy
  uint32_t shared_;     // bytes from the tile's begin to this thread's first copy
};

// pick(A_ALONG_M, B_ALONG_N), as types: the layouts of the operands.
template <typename Pick>
auto as_they_lie(const Problem& problem, Pick pick) {
  const bool a_along_m = is_mn_major(side_a(problem)), b_along_n = is_mn_major(side_b(problem));
  if (a_along_m && b_along_n) return pick(std::true_type{}, std::true_type{});
  if (a_along_m) return pick(std::true_type{}, std::false_type{});
  if (b_along_n) return pick(std::false_type{}, std::true_type{});
  return pick(std::false_type{}, std::false_type{});
}

}  // namespace tiled
