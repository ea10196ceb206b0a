// One operand of a kernel that loads by cp.async: its tile of ROWS (m for A, n for B) by one step
// of K on its way from global memory, and from there by ldmatrix into the fragments of mma.sync. It
// stays in its own layout in global memory, swizzled so that neither way meets a bank conflict:
//
//     along k:       one box,           [ROWS][BLOCK_K]
//     along m or n:  ROWS / ATOM boxes, [BLOCK_K][ATOM of m or n]
//
// Only 16-bit elements may be contiguous along m or n: those ldmatrix transposes. Along k it loads
// words of any elements: 16 bytes of k for 8 rows. The threads copy 16 bytes each, one after the
// other through the boxes, in COPIES passes.
#pragma once

#include <cstdint>

#include "cuda/parts/pipeline/copy_in_part.cuh"
#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/opaque.cuh"
#include "cuda/ptx/swizzle.cuh"

namespace tiled {

// Where an operand's elements are, in elements. Kept apart from the operand's state: these are the
// launch's, and cost no thread a register.
struct RowsByK {
  int64_t row, k;
};

// WARP_ROWS of the tile are a warp's. IS_B: the fragments are mma.sync's of B.
template <typename Tile, typename T, int ROWS, int WARP_ROWS, bool ALONG_MN, bool IS_B>
class AsyncOperand {
  static_assert(sizeof(T) == 2 || !ALONG_MN, "what ldmatrix transposes");

 protected:
  static constexpr int VECTOR = 16 / sizeof(T);                 // elements of a copy
  static constexpr int BLOCK_K = Tile::STEP_BYTES / sizeof(T);  // elements
  static constexpr int lowest_bit(int value) { return value & -value; }
  static constexpr int ATOM = lowest_bit(ROWS) < 64 ? lowest_bit(ROWS) : 64;  // of m or n
  static constexpr int ROW_BYTES = ALONG_MN ? ATOM * 2 : Tile::STEP_BYTES;    // of a box
  static constexpr int BOX_BYTES = BLOCK_K * ROW_BYTES;                       // along m or n
  static constexpr int PER_ROW = ROW_BYTES / 16;                              // copies
  static constexpr int ROWS_A_PASS = Tile::THREADS / PER_ROW;                 // of boxes
  static constexpr int PASSES_A_BOX = ROWS_A_PASS < BLOCK_K ? BLOCK_K / ROWS_A_PASS : 1;
  static constexpr int BOXES_A_PASS = ROWS_A_PASS < BLOCK_K ? 1 : ROWS_A_PASS / BLOCK_K;
  static_assert(!ALONG_MN || BLOCK_K % ROWS_A_PASS == 0 || ROWS_A_PASS % BLOCK_K == 0,
                "whole boxes, or equal parts");
  static_assert(!ALONG_MN || WARP_ROWS % ATOM == 0 || ATOM % WARP_ROWS == 0,
                "a warp's rows are boxes, or a box is warps' rows");

 public:
  static constexpr int BYTES = ROWS * Tile::STEP_BYTES;
  static constexpr int COPIES = BYTES / 16 / Tile::THREADS;  // of a thread, a step
  static_assert(COPIES * 16 * Tile::THREADS == BYTES, "every thread makes as many copies");

  // `data` is the tile's first row at the segment's first k. Operands that need them are given the
  // first and the end of the matrix besides.
  __device__ __forceinline__ AsyncOperand(const T* data, RowsByK strides, const T* = nullptr,
                                          const T* = nullptr)
      : data_(data + row(0) * strides.row + k(0) * strides.k) {}

  // Start one of the next step's copies, in order, of a tile that is in the matrix as a whole.
  __device__ __forceinline__ void copy_whole(uint32_t tile, int index, RowsByK strides) {
    ptx::cp_async_16(tile + to(index), data_);
    data_ += index < COPIES - 1 ? offset(index + 1, strides) - offset(index, strides)
                                : BLOCK_K * strides.k - offset(COPIES - 1, strides);
  }

  // The same at the edge, for a step all of whose k exist: what is outside as a whole is read
  // from the last that exists, and takes part in results that are not stored.
  __device__ __forceinline__ void copy_clamped(uint32_t tile, int index, int rows,
                                               RowsByK strides) {
    if constexpr (ALONG_MN) {
      const int first = min(row(index), (rows - 1) / VECTOR * VECTOR);
      ptx::cp_async_16(tile + to(index), data_ + offset(index, strides) - (row(index) - first),
                       min(rows - first, VECTOR) * int(sizeof(T)));
    } else {
      const int from_first = min(row(index), rows - 1) - row(0);
      ptx::cp_async_16(tile + to(index), data_ + from_first * strides.row);
    }
    if (index == COPIES - 1) data_ += BLOCK_K * strides.k;
  }

  // Either of them, for a tile that is whole or not.
  __device__ __forceinline__ void copy_simply(bool whole, uint32_t tile, int index, int rows,
                                              RowsByK strides) {
    whole ? copy_whole(tile, index, strides) : copy_clamped(tile, index, rows, strides);
  }

  // How many steps of a segment may be copied so. Where rows end within a vector not the last,
  // since its vectors may reach beyond the matrix; and none where all k are the same row.
  static __device__ __forceinline__ int simple_steps(int rows, int64_t all_rows, int length,
                                                     RowsByK strides) {
    if (Tile::ANY) return 0;  // these copy otherwise
    if (!ALONG_MN || rows == ROWS || all_rows % VECTOR == 0) return length / BLOCK_K;
    return strides.k == 0 ? 0 : (length - 1) / BLOCK_K;
  }

  // The whole next step at the edge: `rows` of the tile and `k_left` values of k exist (more than
  // BLOCK_K is fine). What is outside the matrix, which is over at `end`, becomes zero; no
  // address outside it is read.
  __device__ __forceinline__ void copy(uint32_t tile, int rows, int k_left, RowsByK strides,
                                       const T* end) {
    copy_by<16>(tile, rows, k_left, strides, end);
  }

  // Where this lane's address of the first fragment of its warp, which begins at row `first`, is
  // in a tile, bytes. mma.sync takes of A rows 0-7 and 8-15 of the first 8 of k, then of the next;
  // of B both eights of k of eight columns, then of the next eight. (An eight: 16 bytes.)
  static __device__ __forceinline__ uint32_t lane_at(int first) {
    const int lane = threadIdx.x % 32, slow = lane / 16 * 8, fast = lane / 8 % 2 * 8;
    const int mn = first + (IS_B ? slow : fast), k = IS_B ? fast : slow;
    if constexpr (ALONG_MN)
      return mn / ATOM * BOX_BYTES +
             ptx::swizzled<ROW_BYTES>((k + lane % 8) * ROW_BYTES + mn % ATOM * 2);
    else
      return ptx::swizzled<ROW_BYTES>((mn + lane % 8) * ROW_BYTES + k * 2);
  }

  // Fragment `index` of 16 rows, part `part` of 32 bytes of k. `lane` is lane_at, in a tile at a
  // multiple of 1024 bytes: the swizzle's pattern, and where both move on by 32 bytes within a
  // row, turn the same bits.
  static __device__ __forceinline__ void load(uint32_t (&fragment)[4], uint32_t lane, int index,
                                              int part) {
    if constexpr (ALONG_MN)
      ptx::ldmatrix_x4_trans(fragment, (lane ^ index * 32 % ROW_BYTES) +
                                           index * 32 / ROW_BYTES * BOX_BYTES +
                                           part * 16 * ROW_BYTES);
    else
      ptx::ldmatrix_x4(fragment, (lane ^ part * 32) + index * 16 * ROW_BYTES);
  }

 protected:
  // The first element of this thread's copy in pass `index`, in the tile.
  static __device__ __forceinline__ int row(int index) {
    const int pass_row = threadIdx.x / PER_ROW, vector = threadIdx.x % PER_ROW * VECTOR;
    return ALONG_MN ? (pass_row / BLOCK_K + index / PASSES_A_BOX * BOXES_A_PASS) * ATOM + vector
                    : pass_row + index * ROWS_A_PASS;
  }
  static __device__ __forceinline__ int k(int index) {
    return ALONG_MN ? threadIdx.x / PER_ROW % BLOCK_K + index % PASSES_A_BOX * ROWS_A_PASS
                    : threadIdx.x % PER_ROW * VECTOR;
  }
  // Elements from the first pass's to there.
  static __device__ __forceinline__ int64_t offset(int index, RowsByK strides) {
    return ALONG_MN ? index / PASSES_A_BOX * BOXES_A_PASS * ATOM * strides.row +
                          index % PASSES_A_BOX * ROWS_A_PASS * strides.k
                    : index * ROWS_A_PASS * strides.row;
  }
  // The same by pieces of BYTES. The last of the matrix, which may reach beyond its end, comes
  // last: what is computed for it must not be kept in registers from step to step.
  template <int BYTES>
  __device__ __forceinline__ void copy_by(uint32_t tile, int rows, int k_left, RowsByK strides,
                                          const T* end) {
    constexpr int PIECE = BYTES / sizeof(T);
    bool beyond = false;
#pragma unroll
    for (int i = 0; i < COPIES; ++i) {
      const int count = exist(i, rows, k_left);
      const T* const from = data_ + offset(i, strides);
#pragma unroll
      for (int first = 0; first < VECTOR; first += PIECE) {
        const uint32_t at = tile + to(i) + first * int(sizeof(T));
        const int left = min(count - first, PIECE);
        if (left <= 0)
          clear_shared<BYTES>(at);
        else if (left == PIECE || from + first + PIECE <= end)
          copy_async<BYTES>(at, from + first, left * int(sizeof(T)));
        else
          beyond = true;
      }
    }
    if (beyond) {
      ptx::opaque(tile);
      ptx::opaque(rows, k_left);
#pragma unroll 1
      for (int i = 0; i < COPIES; ++i) {
        const int count = exist(i, rows, k_left), first = count / PIECE * PIECE;
        const T* const from = data_ + offset(i, strides) + first;
        if (count > first && from + PIECE > end)
          copy_part<BYTES>(tile + to(i) + first * int(sizeof(T)), from, count - first);
      }
    }
    data_ += BLOCK_K * strides.k;
  }

  // How many of a copy's elements exist.
  static __device__ __forceinline__ int exist(int index, int rows, int k_left) {
    const int rows_left = rows - row(index), k_after = k_left - k(index);
    const int along = ALONG_MN ? rows_left : k_after, across = ALONG_MN ? k_after : rows_left;
    return across > 0 ? max(0, min(along, VECTOR)) : 0;
  }
  // Bytes of a copy in the tile. Where a pass covers whole patterns of the swizzle, all passes have
  // the same place in them.
  static __device__ __forceinline__ uint32_t to(int index) {
    constexpr int PASS_BYTES = Tile::THREADS * 16;
    if constexpr (PASS_BYTES % 1024 == 0)
      return ptx::swizzled<ROW_BYTES>(threadIdx.x * 16) + index * PASS_BYTES;
    else
      return ptx::swizzled<ROW_BYTES>(threadIdx.x * 16 + index * PASS_BYTES);
  }

  const T* data_;  // this thread's next copy
};

}  // namespace tiled
