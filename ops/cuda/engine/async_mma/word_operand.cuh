// An operand of async_mma of fp32 or bytes that is not contiguous along k at multiples of 16
// bytes. ldmatrix transposes 16-bit elements alone, so these are contiguous along k in shared
// memory wherever they come from. A float is a word, which cp.async takes from anywhere to
// anywhere. Bytes along k come by words too, if those are aligned; bytes along m or n in squares of
// four rows by four of k, which wait in a thread's registers while the step before is multiplied,
// and are turned there. All else, and what is no whole square, goes byte by byte.
#pragma once

#include "cuda/engine/async_mma/way.h"
#include "cuda/parts/pipeline/async_operand.cuh"
#include "cuda/ptx/shared.cuh"

namespace tiled {

template <typename Tile, typename T, int ROWS, int WARP_ROWS, bool IS_B>
class WordOperand : public AsyncOperand<Tile, T, ROWS, WARP_ROWS, false, IS_B> {
  using Base = AsyncOperand<Tile, T, ROWS, WARP_ROWS, false, IS_B>;
  using Base::BLOCK_K;
  static constexpr int PER_WORD = 4 / sizeof(T), ROW_BYTES = Tile::STEP_BYTES;
  static constexpr int WORDS = ROWS * ROW_BYTES / 4 / Tile::THREADS;  // of a thread, a step
  static constexpr int SQUARES = sizeof(T) == 1 ? WORDS / 4 : 0;      // of 4 x 4 bytes
  static_assert(WORDS % 4 == 0 && WORDS * Tile::THREADS * 4 == ROWS * ROW_BYTES, "equal shares");

 public:
  // `data` is the tile's first row at the segment's first k; the matrix is over at `end`.
  __device__ __forceinline__ WordOperand(const T* data, RowsByK strides, const T*, const T* end)
      : Base(data, strides), tile_data_(data), end_(end) {}

  __device__ __forceinline__ void start(uint32_t tile, int rows, int k_left, RowsByK strides,
                                        ReadBy by) {
    if (by == ReadBy::Sixteen) return Base::copy(tile, rows, k_left, strides, end_);
    if (by == ReadBy::Four) copy_words(tile, rows, k_left, strides);
    if constexpr (sizeof(T) == 1) {
      if (by == ReadBy::Turned) fetch(rows, k_left, strides);
      if (by != ReadBy::Four) copy_elements(tile, rows, k_left, strides, by);
    }
    tile_data_ += BLOCK_K * strides.k;
  }

  __device__ __forceinline__ void end(uint32_t tile, int rows, int k_left, ReadBy by) const {
    if (by != ReadBy::Turned) return;
#pragma unroll
    for (int i = 0; i < SQUARES; ++i) {
      const Place at = place<4>(i);
      if (!is_whole(at, rows, k_left)) continue;
      uint32_t words[4];
      turn(held_[i], words);
      store(tile, at, words);
    }
  }

 private:
  // A warp goes over eight places down the rows by four words of k: 32 banks, and along m or n
  // whole sectors of global memory. HIGH rows are one place.
  struct Place {
    int row, word;
  };
  template <int HIGH>
  static __device__ __forceinline__ Place place(int index) {
    constexpr int ACROSS = ROW_BYTES / 16;  // groups of four words
    const int group = threadIdx.x / 32 + index * (Tile::THREADS / 32), lane = threadIdx.x % 32;
    return {(group / ACROSS * 8 + lane / 4) * HIGH, group % ACROSS * 4 + lane % 4};
  }

  __device__ __forceinline__ void copy_words(uint32_t tile, int rows, int k_left,
                                             RowsByK strides) const {
#pragma unroll 1
    for (int i = 0; i < WORDS; ++i) {
      const Place at = place<1>(i);
      const int k = at.word * PER_WORD;
      const int count = at.row < rows ? k_left - k : 0;
      const uint32_t to = tile + ptx::swizzled<ROW_BYTES>(at.row * ROW_BYTES + at.word * 4);
      const T* const from = tile_data_ + at.row * strides.row + k * strides.k;
      if (count >= PER_WORD)
        ptx::cp_async_4(to, from);
      else
        ptx::store_shared_u32(to, word_of(from, count));
    }
  }

  static __device__ __forceinline__ bool is_whole(Place at, int rows, int k_left) {
    return at.row + 4 <= rows && at.word * 4 + 4 <= k_left;
  }

  static __device__ __forceinline__ void store(uint32_t tile, Place at,
                                               const uint32_t (&words)[4]) {
#pragma unroll
    for (int row = 0; row < 4; ++row)
      ptx::store_shared_u32(
          tile + ptx::swizzled<ROW_BYTES>((at.row + row) * ROW_BYTES + at.word * 4), words[row]);
  }

  // Loads the four words of every whole square from global memory.
  __device__ __forceinline__ void fetch(int rows, int k_left, RowsByK strides) {
#pragma unroll
    for (int i = 0; i < SQUARES; ++i) {
      const Place at = place<4>(i);
      if (!is_whole(at, rows, k_left)) continue;
      const T* from = tile_data_ + at.row + at.word * 4 * strides.k;
#pragma unroll
      for (int e = 0; e < 4; ++e, from += strides.k)
        held_[i][e] = *reinterpret_cast<const uint32_t*>(from);
    }
  }

  // All other squares at once, byte by byte.
  __device__ __forceinline__ void copy_elements(uint32_t tile, int rows, int k_left,
                                                RowsByK strides, ReadBy by) const {
#pragma unroll 1
    for (int i = 0; i < SQUARES; ++i) {
      const Place at = place<4>(i);
      if (by == ReadBy::Turned && is_whole(at, rows, k_left)) continue;
      uint32_t words[4] = {};
      if (at.row < rows &&
          at.word * 4 < k_left) {  // else it is all outside, as most are of few rows
        const T* const from = tile_data_ + at.row * strides.row + at.word * 4 * strides.k;
#pragma unroll
        for (int row = 0; row < 4; ++row)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            if (at.row + row < rows && at.word * 4 + e < k_left)
              words[row] |= uint32_t{bits_of(from[row * strides.row + e * strides.k])} << 8 * e;
      }
      store(tile, at, words);
    }
  }

  // 4 x 4 bytes across the diagonal.
  static __device__ __forceinline__ void turn(const uint32_t (&from)[4], uint32_t (&to)[4]) {
    const uint32_t low01 = __byte_perm(from[0], from[1], 0x5140);  // rows 0 and 1, k = 0 and 1
    const uint32_t low23 = __byte_perm(from[2], from[3], 0x5140);
    const uint32_t high01 = __byte_perm(from[0], from[1], 0x7362);  // rows 2 and 3
    const uint32_t high23 = __byte_perm(from[2], from[3], 0x7362);
    to[0] = __byte_perm(low01, low23, 0x5410), to[1] = __byte_perm(low01, low23, 0x7632);
    to[2] = __byte_perm(high01, high23, 0x5410), to[3] = __byte_perm(high01, high23, 0x7632);
  }

  const T* tile_data_;
  const T* end_;
  uint32_t held_[SQUARES > 0 ? SQUARES : 1][4];
};

}  // namespace tiled
