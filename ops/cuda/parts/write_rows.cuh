// 16-bit elements of C from a slice of shared memory to rows of any alignment, and the rounding of
// two sums to them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/parts/shifted.cuh"
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

// The first `count` (below 8) of eight elements, to a multiple of 16 bytes.
__device__ __forceinline__ void write_first(uint16_t* to, uint4 v, int count) {
  if (count & 4) *reinterpret_cast<uint2*>(to) = make_uint2(v.x, v.y);
  const uint32_t two = count & 4 ? v.z : v.x, last = count & 4 ? v.w : v.y;
  if (count & 2) *reinterpret_cast<uint32_t*>(to + (count & 4)) = two;
  if (count & 1) to[count & 6] = static_cast<uint16_t>(count & 2 ? last : two);
}

// The first `count` (below 8) of eight elements, to end at a multiple of 16 bytes.
__device__ __forceinline__ void write_last(uint16_t* to, uint4 v, int count) {
  if (count & 1) *to = static_cast<uint16_t>(v.x);
  const uint4 from_two = shifted<2>(v, v, count & 1), from_four = shifted<2>(v, v, count & 3);
  if (count & 2) *reinterpret_cast<uint32_t*>(to + (count & 1)) = from_two.x;
  if (count & 4) *reinterpret_cast<uint2*>(to + (count & 3)) = make_uint2(from_four.x, from_four.y);
}

// The slice's rows to a C of any alignment, whose elements along a row are neighbours: `rows` rows
// of `columns` elements exist in C from `c` on. First what fills multiples of 16 bytes, each
// shifted together from two pieces of the slice; then the ends of rows, two threads for each.
template <int SLICE_ROWS, int ROW_ELEMENTS, int THREADS>
__device__ __forceinline__ void write_rows(uint32_t slice, uint16_t* c, int64_t pitch, int rows,
                                           int columns, int thread) {
  constexpr int PIECES = ROW_ELEMENTS / 8;
  const int length = min(columns, ROW_ELEMENTS);
  // Elements of a row before its first multiple of 16 bytes.
  const auto lead_of = [](const uint16_t* to) {
    return static_cast<int>((0 - reinterpret_cast<uintptr_t>(to)) / 2 % 8);
  };
  const auto load = [&](int row, int piece, int shift) {  // 8 elements from 8 piece + shift on
    const auto at = [&](int p) {
      return ptx::load_shared_v4(slice +
                                 ptx::swizzled<2 * ROW_ELEMENTS>(row * 2 * ROW_ELEMENTS + p * 16));
    };
    return shifted<2>(at(piece), at(min(piece + 1, PIECES - 1)), shift);
  };
#pragma unroll 2
  for (int i = thread; i < SLICE_ROWS * PIECES; i += THREADS) {
    const int row = i / PIECES, piece = i % PIECES;
    uint16_t* to = c + row * pitch;
    const int lead = lead_of(to), first = 8 * piece + lead;
    if (row < rows && first + 8 <= length)
      *reinterpret_cast<uint4*>(to + first) = load(row, piece, lead);
  }
  const auto write_ends = [&](int row) {
    if (row >= SLICE_ROWS || row >= rows || length <= 0) return;
    uint16_t* to = c + row * pitch;
    const int lead = lead_of(to);
    if (thread % 2 == 0) {
      const uint4 v = load(row, 0, 0);
      if (lead <= length)
        write_last(to, v, lead);
      else
        for (int i = 0; i < length; ++i) to[i] = static_cast<uint16_t>(shifted<2>(v, v, i).x);
    } else if (length > lead) {
      const int piece = (length - lead) / 8;
      write_first(to + lead + 8 * piece, load(row, min(piece, PIECES - 1), lead),
                  (length - lead) % 8);
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
