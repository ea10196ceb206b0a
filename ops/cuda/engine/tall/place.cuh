// Where a strip's sums go, and what both ways of multiplying do with them.
#pragma once

#include "cuda/engine/tall/strips.cuh"
#include "cuda/parts/arithmetic/thread_tile.cuh"
#include "cuda/ptx/shared.cuh"

namespace tiled {

struct StripPlace {
  int64_t entry, row0, column0;
  uint32_t room;  // of the warp in shared memory, Tile::STORE_BYTES
};

// Whether C's rows follow each other without a gap, from a multiple of 16 bytes on, so that some of
// them are a stretch of memory that can be written 16 bytes at a time whatever a row's length is.
__device__ __forceinline__ bool is_stretch(const Problem& problem, int64_t entry,
                                           int64_t most_columns, int bytes) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(problem.c.data) +
                          static_cast<uintptr_t>(entry * problem.c.batch_stride * bytes);
  return problem.c.col_stride == 1 && problem.c.row_stride == problem.n &&
         problem.n <= most_columns && begin % 16 == 0;
}

// A stretch of `count` elements from `room` to `c`, by a warp.
template <typename T>
__device__ __forceinline__ void write_stretch(uint32_t room, void* c, int count) {
  constexpr int WIDE = 16 / sizeof(T);
  T* const to = static_cast<T*>(c);
#pragma unroll 1
  for (int i = lane_anew() * WIDE; i < count; i += 32 * WIDE) {
    const uint4 v = ptx::load_shared_v4(room + i * sizeof(T));
    if (i + WIDE <= count) {
      *reinterpret_cast<uint4*>(to + i) = v;
    } else {
      const T* const elements = reinterpret_cast<const T*>(&v);
#pragma unroll
      for (int j = 0; j < WIDE - 1; ++j)
        if (i + j < count) to[i + j] = elements[j];
    }
  }
}

// Transposes four words of four neighbouring lanes: lane t gets the t-th of each, in the lanes'
// order.
__device__ __forceinline__ void exchange_in_four(uint32_t (&words)[4]) {
  const auto exchange = [](uint32_t& low, uint32_t& high, int mask) {
    const bool upper = threadIdx.x & mask;
    const uint32_t other = __shfl_xor_sync(~0u, upper ? low : high, mask);
    (upper ? low : high) = other;
  };
  exchange(words[0], words[1], 1), exchange(words[2], words[3], 1);
  exchange(words[0], words[2], 2), exchange(words[1], words[3], 2);
}

// Sums go through the epilogue where they are, VECTOR at a time, of which at(v) is the v-th's Spot.
template <typename T, int VECTOR, int COUNT, typename At>
__device__ __forceinline__ void finish_in_place(const Problem& problem, int64_t entry,
                                                Accumulator<T> (&sums)[COUNT], At at) {
  for_each_in_turn<VECTOR>(sums, [&](int v) {
    const Spot spot = at(v);
    if (spot.row >= problem.m) return;
    Accumulator<T> values[VECTOR];
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) values[i] = sums[i];
    finish_vector<T>(problem.epilogue, values, entry, spot.row, spot.column, problem.n);
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) sums[i] = values[i];
  });
}

}  // namespace tiled
