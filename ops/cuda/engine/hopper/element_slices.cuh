// A slice of C (hopper_store.cuh) whose elements have 32 bits, as the sums of tf32 and of bytes, or
// 8: the low ones of a sum of bytes. stmatrix moves 16 bits alone, so each lane stores what it has:
// two neighbours along q, or each element by itself where C's rows are contiguous along p.
//
//     along q:  [64 p][WIDTH q]
//     along p:  [64 / ROW][WIDTH q][ROW p], ROW 32 words or 64 bytes
//
// A row is 128 bytes at most, as TMA's swizzle has them. Two lanes meet in a bank where they store
// words along q, elsewhere none.
#pragma once

#include <cstdint>

#include "cuda/engine/hopper/tiles.h"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/shared_u16.cuh"
#include "cuda/ptx/shared_u8.cuh"
#include "cuda/ptx/swizzle.cuh"

namespace tiled {

// Element: float, int32_t or uint8_t.
template <typename Element, int WIDTH, bool ALONG_P>
struct ElementSlice {
  static constexpr int ROW = ALONG_P ? slice_row(sizeof(Element)) : WIDTH;  // elements
  static constexpr int SIZE = sizeof(Element);                              // bytes
  static constexpr int ROW_BYTES = ROW * SIZE;

  // Bytes from the slice's begin.
  static __device__ __forceinline__ uint32_t at(int p, int q) {
    const int row = ALONG_P ? p / ROW * WIDTH + q : p, place = ALONG_P ? p % ROW : q;
    return ptx::swizzled<ROW_BYTES>(row * ROW_BYTES + place * sizeof(Element));
  }

  static __device__ __forceinline__ void store(uint32_t address, float value) {
    ptx::store_shared_f32(address, value);
  }
  static __device__ __forceinline__ void store(uint32_t address, int32_t value) {
    if constexpr (sizeof(Element) == 4)
      ptx::store_shared_u32(address, value);
    else
      ptx::store_shared_u8(address, value);
  }
  template <typename Sum>
  static __device__ __forceinline__ void store_pair(uint32_t address, Sum low, Sum high) {
    if constexpr (sizeof(Element) == 4)
      ptx::store_shared_v2(address, low, high);
    else
      ptx::store_shared_u16(address, __byte_perm(low, high, 0x0040));
  }
};

// 64 x WIDTH accumulators, from column `first` of a warpgroup's, into the slice.
template <typename Element, int WIDTH, bool ALONG_P, typename Sum, int COUNT>
__device__ __forceinline__ void fill_elements(uint32_t slice, const Sum (&d)[COUNT], int first,
                                              int thread) {
  using Slice = ElementSlice<Element, WIDTH, ALONG_P>;
  const int p = thread / 32 * 16 + thread % 32 / 4, q = thread % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    // Eight columns on are other bits of the address than a lane's own.
    const uint32_t at = slice + Slice::at(p + 8 * half, q);
    const uint32_t next = slice + Slice::at(p + 8 * half, q + 1);
#pragma unroll
    for (int column = 0; column < WIDTH; column += 8) {
      const Sum* v = d + (first + column) / 2 + 2 * half;
      if constexpr (ALONG_P) {
        Slice::store(at + column * Slice::ROW_BYTES, v[0]);
        Slice::store(next + column * Slice::ROW_BYTES, v[1]);
      } else {
        Slice::store_pair(at ^ column * Slice::SIZE, v[0], v[1]);
      }
    }
  }
}

}  // namespace tiled
