// An operand of async_mma that is not at multiples of 16 bytes. At multiples of 8 or 4 bytes
// cp.async copies so much at a time. Else its 16 bytes wait in registers while the step before is
// multiplied: the two aligned 16 bytes that hold them, which are shifted together on their way to
// shared memory, or, where neighbours are not side by side, element by element. On 7.5, which
// has no cp.async, all operands wait so.
#pragma once

#include "cuda/engine/async_mma/way.h"
#include "cuda/parts/copy/shifted.cuh"
#include "cuda/parts/pipeline/async_operand.cuh"
#include "cuda/ptx/shared.cuh"

namespace tiled {

template <typename Tile, typename T, int ROWS, int WARP_ROWS, bool ALONG_MN, bool IS_B>
class AnyOperand : public AsyncOperand<Tile, T, ROWS, WARP_ROWS, ALONG_MN, IS_B> {
  using Base = AsyncOperand<Tile, T, ROWS, WARP_ROWS, ALONG_MN, IS_B>;
  using Base::BLOCK_K, Base::VECTOR, Base::data_;

 public:
  using Base::COPIES;
  static_assert(COPIES * 3 <= 32, "three bits of a copy's shift in a word");

  // `first` and `end` of the matrix: nothing outside is read.
  __device__ __forceinline__ AnyOperand(const T* data, RowsByK strides, const T* first,
                                        const T* end)
      : Base(data, strides), first_(first), end_(end) {}

  // Start the next step's copies, as copy does.
  __device__ __forceinline__ void start(uint32_t tile, int rows, int k_left, RowsByK strides,
                                        ReadBy by) {
    if constexpr (Tile::SM75)
      return by == ReadBy::Sixteen ? fetch_wide(rows, k_left, strides)
                                   : fetch(rows, k_left, strides, by);
    switch (by) {
      case ReadBy::Sixteen: Base::copy(tile, rows, k_left, strides, end_); return;
      case ReadBy::Eight: Base::template copy_by<8>(tile, rows, k_left, strides, end_); return;
      case ReadBy::Four: Base::template copy_by<4>(tile, rows, k_left, strides, end_); return;
      default: fetch(rows, k_left, strides, by);
    }
  }

  // And end them: what waits in registers goes to shared memory. With the same arguments.
  __device__ __forceinline__ void end(uint32_t tile, int rows, int k_left, ReadBy by) const {
    const bool wide = Tile::SM75 && by == ReadBy::Sixteen;
    if (!wide && by != ReadBy::Shifted && by != ReadBy::Elements) return;
#pragma unroll
    for (int i = 0; i < COPIES; ++i) {
      const int count = wide && is_whole(rows, k_left) ? VECTOR : Base::exist(i, rows, k_left);
      uint4 v = held_[i][0];
      if (!wide) v = shifted<2>(v, held_[i][1], shifts_ >> 3 * i & 7);
      if (count < VECTOR) v = first_of(v, count);
      ptx::store_shared_v4(tile + Base::to(i), v);
    }
  }

 private:
  static __device__ __forceinline__ bool is_whole(int rows, int k_left) {
    return rows == ROWS && k_left >= BLOCK_K;
  }

  // Loads from multiples of 16 bytes.
  __device__ __forceinline__ void fetch_wide(int rows, int k_left, RowsByK strides) {
#pragma unroll
    for (int i = 0; i < COPIES; ++i) {
      const T* const from = data_ + Base::offset(i, strides);
      const int count = is_whole(rows, k_left) ? VECTOR : Base::exist(i, rows, k_left);
      held_[i][0] = make_uint4(0, 0, 0, 0);
      if (count == VECTOR || (count > 0 && from + VECTOR <= end_))
        held_[i][0] = *reinterpret_cast<const uint4*>(from);
      else if (count > 0)
        held_[i][0] = one_by_one(from, count, 1);
    }
    data_ += BLOCK_K * strides.k;
  }

  __device__ __forceinline__ void fetch(int rows, int k_left, RowsByK strides, ReadBy by) {
    const int64_t step = ALONG_MN ? strides.row : strides.k;
    shifts_ = 0;
#pragma unroll
    for (int i = 0; i < COPIES; ++i) {
      const int count = Base::exist(i, rows, k_left);
      const T* const from = data_ + (count > 0 ? Base::offset(i, strides) : 0);
      const int shift = static_cast<int>(reinterpret_cast<uintptr_t>(from) / 2 % 8);
      const T* const low = from - shift;
      const bool both = shift + count > 8;
      held_[i][0] = held_[i][1] = make_uint4(0, 0, 0, 0);
      if (count == 0) continue;
      if (by == ReadBy::Shifted && low >= first_ && low + (both ? 16 : 8) <= end_) {
        held_[i][0] = *reinterpret_cast<const uint4*>(low);
        if (both) held_[i][1] = *reinterpret_cast<const uint4*>(low + 8);
        shifts_ |= shift << 3 * i;
      } else {
        held_[i][0] = one_by_one(from, count, step);
      }
    }
    data_ += BLOCK_K * strides.k;
  }

  static __device__ __forceinline__ uint4 one_by_one(const T* from, int count, int64_t step) {
    uint32_t words[4] = {};
#pragma unroll
    for (int e = 0; e < VECTOR; ++e)
      if (e < count)
        words[e / 2] |= uint32_t{reinterpret_cast<const uint16_t&>(from[e * step])} << e % 2 * 16;
    return make_uint4(words[0], words[1], words[2], words[3]);
  }

  // The others become zero.
  static __device__ __forceinline__ uint4 first_of(uint4 v, int count) {
    const auto word = [&](uint32_t w, int i) {
      return count >= 2 * i + 2 ? w : count == 2 * i + 1 ? w & 0xffff : 0;
    };
    return make_uint4(word(v.x, 0), word(v.y, 1), word(v.z, 2), word(v.w, 3));
  }

  const T *first_, *end_;
  uint4 held_[COPIES][2];
  uint32_t shifts_;  // of each copy, elements
};

}  // namespace tiled
