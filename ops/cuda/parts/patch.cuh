// A thread's patch of C: its values of A and B from shared memory, the multiply-adds between them,
// and its store. The patch is made of vectors of 16 bytes.
#pragma once

#include "cuda/parts/element.cuh"

namespace tiled {

// A patch of a tile: COUNT values in vectors of VECTOR, `stride` elements apart.
template <typename Acc, int COUNT, int VECTOR>
__device__ __forceinline__ void load_patch(const Acc* tile, int stride, Acc (&patch)[COUNT]) {
  struct alignas(16) Vector {
    Acc element[VECTOR];
  };
#pragma unroll
  for (int i = 0; i < COUNT; i += VECTOR) {
    const Vector vector = *reinterpret_cast<const Vector*>(tile + i / VECTOR * stride);
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) patch[i + j] = vector.element[j];
  }
}

// chain[i][j] = a[i] * b[j] + chain[i][j], PANEL columns at a time. Every other row runs backwards,
// so that the b of the turn is still at hand and need not be read from the register file again.
template <int PANEL, typename Acc, int M, int N>
__device__ __forceinline__ void multiply_patches(const Acc (&a)[M], const Acc (&b)[N],
                                                 Acc (&chain)[M][N]) {
#pragma unroll
  for (int panel = 0; panel < N; panel += PANEL)
#pragma unroll
    for (int i = 0; i < M; ++i)
#pragma unroll
      for (int column = 0; column < PANEL; ++column) {
        const int j = panel + (i % 2 == 0 ? column : PANEL - 1 - column);
        chain[i][j] = mul_add(a[i], b[j], chain[i][j]);
      }
}

// Store VECTOR sums of one row of C from `column` on: as one vector where C's layout allows.
template <typename T, int VECTOR>
__device__ __forceinline__ void store_vector(const Problem& problem, int64_t c_row, int64_t column,
                                             const Accumulator<T>* sums, bool as_accumulator) {
  using Acc = Accumulator<T>;
  struct alignas(VECTOR * sizeof(T)) Vector {
    T element[VECTOR];
  };
  struct alignas(VECTOR * sizeof(Acc)) WideVector {
    Acc element[VECTOR];
  };
  if (problem.c.col_stride == 1 && problem.c.alignment == 16 && column + VECTOR <= problem.n) {
    if (as_accumulator) {
      WideVector wide;
#pragma unroll
      for (int i = 0; i < VECTOR; ++i) wide.element[i] = sums[i];
      *reinterpret_cast<WideVector*>(static_cast<Acc*>(problem.c.data) + c_row + column) = wide;
    } else {
      Vector vector;
#pragma unroll
      for (int i = 0; i < VECTOR; ++i) vector.element[i] = Round<T, Acc>::from(sums[i]);
      *reinterpret_cast<Vector*>(static_cast<T*>(problem.c.data) + c_row + column) = vector;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < VECTOR; ++i)
    if (column + i < problem.n)
      store<T>(problem.c.data, c_row + (column + i) * problem.c.col_stride, sums[i],
               as_accumulator);
}

// Add a segment's VECTOR sums to one row of C from `column` on. C itself holds the running total
// between segments, which then needs no registers: an accumulator stored and read again is the
// same. Only for C of accumulators.
template <typename Acc, int VECTOR>
__device__ __forceinline__ void add_segment(const Problem& problem, int64_t c_row, int64_t column,
                                            const Acc* sums, bool first_segment) {
  struct alignas(VECTOR * sizeof(Acc)) Vector {
    Acc element[VECTOR];
  };
  Acc* const c = static_cast<Acc*>(problem.c.data) + c_row;
  if (problem.c.col_stride == 1 && problem.c.alignment == 16 && column + VECTOR <= problem.n) {
    Vector* const at = reinterpret_cast<Vector*>(c + column);
    Vector total = first_segment ? Vector{} : *at;
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) total.element[i] = add(total.element[i], sums[i]);
    *at = total;
    return;
  }
#pragma unroll
  for (int i = 0; i < VECTOR; ++i)
    if (column + i < problem.n) {
      Acc* const at = c + (column + i) * problem.c.col_stride;
      *at = add(first_segment ? Acc{} : *at, sums[i]);
    }
}

}  // namespace tiled
