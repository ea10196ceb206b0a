// A slice of C (hopper_store.cuh) whose elements are integers: the sums of bytes as they are, 32
// bits, or their low 8 bits. stmatrix knows 16 bits alone, and a lane stores what it has: two
// neighbours along q, or each element by itself where C's rows lie along p.
//
//     along q:  [64 p][WIDTH q]       along p:  [64 / ROW][WIDTH q][ROW p], ROW 32 sums or 64 bytes
//
// A row is 128 bytes at most, as TMA's swizzle has them. Lanes meet two to a bank where they store
// sums along q, elsewhere none.
#pragma once

#include <cstdint>

#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/shared_u16.cuh"
#include "cuda/ptx/shared_u8.cuh"
#include "cuda/ptx/swizzle.cuh"
#include "cuda/rungs/7_hopper/tiles.h"

namespace tiled {

// Element: int32_t or uint8_t.
template <typename Element, int WIDTH, bool ALONG_P>
struct IntegerSlice {
  static constexpr int ROW = ALONG_P ? slice_row(sizeof(Element)) : WIDTH;  // elements
  static constexpr int ROW_BYTES = ROW * sizeof(Element);

  // Bytes from the slice's begin.
  static __device__ __forceinline__ uint32_t at(int p, int q) {
    const int row = ALONG_P ? p / ROW * WIDTH + q : p, place = ALONG_P ? p % ROW : q;
    return ptx::swizzled<ROW_BYTES>(row * ROW_BYTES + place * sizeof(Element));
  }

  static __device__ __forceinline__ void store(uint32_t address, int32_t value) {
    if constexpr (sizeof(Element) == 4)
      ptx::store_shared_u32(address, value);
    else
      ptx::store_shared_u8(address, value);
  }
  static __device__ __forceinline__ void store_pair(uint32_t address, int32_t low, int32_t high) {
    if constexpr (sizeof(Element) == 4)
      ptx::store_shared_v2(address, low, high);
    else
      ptx::store_shared_u16(address, __byte_perm(low, high, 0x0040));
  }
  static __device__ __forceinline__ Element load(uint32_t address) {
    if constexpr (sizeof(Element) == 4)
      return ptx::load_shared_u32(address);
    else
      return ptx::load_shared_u8(address);
  }
};

// 64 x WIDTH accumulators, from column `first` of a warpgroup's, into the slice.
template <typename Element, int WIDTH, bool ALONG_P, int COUNT>
__device__ __forceinline__ void fill_slice(uint32_t slice, const int32_t (&d)[COUNT], int first,
                                           int thread) {
  using Slice = IntegerSlice<Element, WIDTH, ALONG_P>;
  const int p = thread / 32 * 16 + thread % 32 / 4, q = thread % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    // Eight columns on are other bits of the address than a lane's own.
    const uint32_t at = slice + Slice::at(p + 8 * half, q);
    const uint32_t next = slice + Slice::at(p + 8 * half, q + 1);
#pragma unroll
    for (int column = 0; column < WIDTH; column += 8) {
      const int32_t* v = d + (first + column) / 2 + 2 * half;
      if constexpr (ALONG_P) {
        Slice::store(at + column * Slice::ROW_BYTES, v[0]);
        Slice::store(next + column * Slice::ROW_BYTES, v[1]);
      } else {
        Slice::store_pair(at ^ column * sizeof(Element), v[0], v[1]);
      }
    }
  }
}

// The slice's rows to a C of any alignment, whose elements along a row are neighbours, of which
// `ps` along p and `qs` along q exist from `c` on: neighbouring threads write neighbours.
template <typename Slice, int WIDTH, bool ALONG_P, typename Element>
__device__ __forceinline__ void write_elements(uint32_t slice, Element* c, int64_t pitch, int ps,
                                               int qs, int thread) {
  constexpr int LENGTH = ALONG_P ? 64 : WIDTH;  // of a row of C
#pragma unroll 4
  for (int i = thread; i < 64 * WIDTH; i += 128) {
    const int row = i / LENGTH, place = i % LENGTH;
    const int p = ALONG_P ? place : row, q = ALONG_P ? row : place;
    if (p < ps && q < qs) c[row * pitch + place] = Slice::load(slice + Slice::at(p, q));
  }
}

}  // namespace tiled
