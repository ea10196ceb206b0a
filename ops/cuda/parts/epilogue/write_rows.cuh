// Elements of C from a slice of shared memory to rows of any alignment, and the rounding of two
// sums to elements of 16 bits.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/parts/copy/shifted.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/swizzle.cuh"

namespace tiled {

__device__ __forceinline__ uint32_t pack(__nv_bfloat16, float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}
__device__ __forceinline__ uint32_t pack(__half, float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}

// The first `count` elements of 16 bytes, fewer than all of them, to a multiple of 16 bytes.
template <typename Element>
__device__ __forceinline__ void write_first(Element* to, uint4 v, int count) {
  constexpr int SIZE = sizeof(Element);
  uint8_t* const at = reinterpret_cast<uint8_t*>(to);
  const int bytes = count * SIZE;
  if (bytes & 8) *reinterpret_cast<uint2*>(at) = make_uint2(v.x, v.y);
  const uint32_t third = bytes & 8 ? v.z : v.x, fourth = bytes & 8 ? v.w : v.y;
  if (bytes & 4) *reinterpret_cast<uint32_t*>(at + (bytes & 8)) = third;
  const uint32_t rest = bytes & 4 ? fourth : third;
  if constexpr (SIZE <= 2)
    if (bytes & 2) *reinterpret_cast<uint16_t*>(at + (bytes & 12)) = static_cast<uint16_t>(rest);
  if constexpr (SIZE == 1)
    if (bytes & 1) at[bytes & 14] = static_cast<uint8_t>(bytes & 2 ? rest >> 16 : rest);
}

// The same, to end at a multiple of 16 bytes.
template <typename Element>
__device__ __forceinline__ void write_last(Element* to, uint4 v, int count) {
  constexpr int SIZE = sizeof(Element);
  uint8_t* const at = reinterpret_cast<uint8_t*>(to);
  const int bytes = count * SIZE;
  const auto from = [&](int byte) { return shifted<SIZE>(v, v, byte / SIZE); };
  if constexpr (SIZE == 1)
    if (bytes & 1) *at = static_cast<uint8_t>(v.x);
  if constexpr (SIZE <= 2)
    if (bytes & 2)
      *reinterpret_cast<uint16_t*>(at + (bytes & 1)) = static_cast<uint16_t>(from(bytes & 1).x);
  if (bytes & 4) *reinterpret_cast<uint32_t*>(at + (bytes & 3)) = from(bytes & 3).x;
  const uint4 last = from(bytes & 7);
  if (bytes & 8) *reinterpret_cast<uint2*>(at + (bytes & 7)) = make_uint2(last.x, last.y);
}

// The lowest bytes of a word, as many as an element has.
template <typename Element>
__device__ __forceinline__ void write_one(Element* to, uint32_t word) {
  *to = reinterpret_cast<const Element&>(word);
}

// The slice's rows to a C of any strides and alignment: `rows` rows of `columns` elements exist in
// C from `c` on. Here element by element, a thread in its column.
template <int SLICE_ROWS, int ROW_ELEMENTS, int THREADS, typename Element>
__device__ __forceinline__ void write_apart(uint32_t slice, Element* c, int64_t row_stride,
                                            int64_t column_stride, int rows, int columns,
                                            int thread) {
  static_assert(THREADS % ROW_ELEMENTS == 0);
  constexpr int SIZE = sizeof(Element), ROW_BYTES = ROW_ELEMENTS * SIZE;
  constexpr int STEP = THREADS / ROW_ELEMENTS;  // rows
  const int first = thread / ROW_ELEMENTS, column = thread % ROW_ELEMENTS;
  const int end = column < columns ? min(rows, SLICE_ROWS) : 0;
  Element* to = c + first * row_stride + column * column_stride;
#pragma unroll 4
  for (int row = first; row < end; row += STEP, to += STEP * row_stride) {
    const uint32_t at = ptx::swizzled<ROW_BYTES>(row * ROW_BYTES + column * SIZE);
    write_one(to, ptx::load_shared_u32(slice + at / 4 * 4) >> at % 4 * 8);
  }
}

// The same, by 16 bytes where a row's elements are neighbours. First what fills multiples of them,
// each shifted together from two pieces of the slice; then the ends of rows, two threads for each.
// Words go out as fast one by one, neighbouring threads' together, without ends to care for.
template <int SLICE_ROWS, int ROW_ELEMENTS, int THREADS, typename Element>
__device__ __forceinline__ void write_rows(uint32_t slice, Element* c, int64_t row_stride,
                                           int64_t column_stride, int rows, int columns,
                                           int thread) {
  constexpr int SIZE = sizeof(Element), PIECE = 16 / SIZE;  // elements
  if (SIZE == 4 || column_stride != 1)
    return write_apart<SLICE_ROWS, ROW_ELEMENTS, THREADS>(slice, c, row_stride, column_stride, rows,
                                                          columns, thread);
  constexpr int PIECES = ROW_ELEMENTS / PIECE, ROW_BYTES = ROW_ELEMENTS * SIZE;
  const int length = min(columns, ROW_ELEMENTS);
  // Elements of a row before its first multiple of 16 bytes.
  const auto lead_of = [](const Element* to) {
    return static_cast<int>((0 - reinterpret_cast<uintptr_t>(to)) / SIZE % PIECE);
  };
  const auto load = [&](int row, int piece, int shift) {  // a piece from `shift` further on
    const auto at = [&](int p) {
      return ptx::load_shared_v4(slice + ptx::swizzled<ROW_BYTES>(row * ROW_BYTES + p * 16));
    };
    return shifted<SIZE>(at(piece), at(min(piece + 1, PIECES - 1)), shift);
  };
#pragma unroll 2
  for (int i = thread; i < SLICE_ROWS * PIECES; i += THREADS) {
    const int row = i / PIECES, piece = i % PIECES;
    Element* to = c + row * row_stride;
    const int lead = lead_of(to), first = PIECE * piece + lead;
    if (row < rows && first + PIECE <= length)
      *reinterpret_cast<uint4*>(to + first) = load(row, piece, lead);
  }
  const auto write_ends = [&](int row) {
    if (row >= SLICE_ROWS || row >= rows || length <= 0) return;
    Element* to = c + row * row_stride;
    const int lead = lead_of(to);
    if (thread % 2 == 0) {
      const uint4 v = load(row, 0, 0);
      if (lead <= length)
        write_last(to, v, lead);
      else
        for (int i = 0; i < length; ++i) write_one(to + i, shifted<SIZE>(v, v, i).x);
    } else if (length > lead) {
      const int piece = (length - lead) / PIECE;
      write_first(to + lead + PIECE * piece, load(row, min(piece, PIECES - 1), lead),
                  (length - lead) % PIECE);
    }
  };
  if constexpr (2 * SLICE_ROWS <= THREADS) {
    write_ends(thread / 2);
  } else {
#pragma unroll 1
    for (int row = thread / 2; row < SLICE_ROWS; row += THREADS / 2) write_ends(row);
  }
}

}  // namespace tiled
