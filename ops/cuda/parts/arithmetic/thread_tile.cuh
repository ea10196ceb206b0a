// A thread's tile of C: its values of A and B from shared memory, the multiply-adds between them,
// and its store. The thread tile is made of vectors of 16 bytes.
#pragma once

#include <iterator>

#include "cuda/parts/epilogue/finish.cuh"

namespace tiled {

// The values of one operand for a thread tile: COUNT values in vectors of VECTOR, `stride` elements
// apart.
template <typename Acc, int COUNT, int VECTOR>
__device__ __forceinline__ void load_thread_tile(const Acc* tile, int stride,
                                                 Acc (&thread_tile)[COUNT]) {
  struct alignas(16) Vector {
    Acc element[VECTOR];
  };
#pragma unroll
  for (int i = 0; i < COUNT; i += VECTOR) {
    const Vector vector = *reinterpret_cast<const Vector*>(tile + i / VECTOR * stride);
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) thread_tile[i + j] = vector.element[j];
  }
}

// chain[i][j] = a[i] * b[j] + chain[i][j], PANEL columns at a time. Every other row runs backwards,
// so that the b of the turn is still at hand and need not be read from the register file again.
template <int PANEL, typename Acc, int M, int N>
__device__ __forceinline__ void multiply_thread_tiles(const Acc (&a)[M], const Acc (&b)[N],
                                                      Chain<Acc> (&chain)[M][N]) {
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
    if (!std::is_same_v<T, Acc> && as_accumulator) {
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

// Store a thread's sums, whatever the epilogue: VECTOR by VECTOR, of which at(v) says where the
// v-th is, as a Spot of C. Rows past the last are left out.
struct Spot {
  int64_t row, column;
};
template <typename T, int VECTOR, int COUNT, typename At>
__device__ __forceinline__ void store_thread_tile(const Problem& problem, int64_t entry,
                                                  Accumulator<T> (&sums)[COUNT], At at) {
  const bool as_accumulator = stores_accumulator(problem);
  const auto store_at = [&](Spot spot, const Accumulator<T>* values) {
    store_vector<T, VECTOR>(problem,
                            entry * problem.c.batch_stride + spot.row * problem.c.row_stride,
                            spot.column, values, as_accumulator);
  };
  if (leaves_sums(problem.epilogue)) {
#pragma unroll
    for (int v = 0; v < COUNT / VECTOR; ++v)
      if (const Spot spot = at(v); spot.row < problem.m) store_at(spot, sums + v * VECTOR);
    return;
  }
  for_each_in_turn<VECTOR>(sums, [&](int v) {
    const Spot spot = at(v);
    if (spot.row >= problem.m) return;
    Accumulator<T> values[VECTOR];
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) values[i] = sums[i];
    finish_vector<T>(problem.epilogue, values, entry, spot.row, spot.column, problem.n);
    store_at(spot, values);
  });
}

// The values of a thread tile as one row.
template <typename Acc, int M, int N>
__device__ __forceinline__ auto in_a_row(Acc (&thread_tile)[M][N]) -> Acc (&)[M * N] {
  return reinterpret_cast<Acc(&)[M * N]>(thread_tile);
}
template <typename Acc, int M, int N, int L>
__device__ __forceinline__ auto in_a_row(Acc (&thread_tile)[M][N][L]) -> Acc (&)[M * N * L] {
  return reinterpret_cast<Acc(&)[M * N * L]>(thread_tile);
}

template <typename ThreadTile>
__device__ __forceinline__ void clear(ThreadTile& thread_tile) {
  auto& values = in_a_row(thread_tile);
#pragma unroll
  for (int i = 0; i < static_cast<int>(std::size(values)); ++i) values[i] = {};
}

// The segment's sums of a thread's chains.
template <typename Acc, int M, int N>
__device__ __forceinline__ void sum_chains(const Chain<Acc> (&chain)[M][N], Acc (&sums)[M][N]) {
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int j = 0; j < N; ++j) sums[i][j] = segment_sum(chain[i][j]);
}

// Add a segment's sums to the total so far, which they become; the first has none before it. After
// all but the last the total waits in the workspace and needs no registers: [block][vector][thread]
// of 16 bytes, of a block of THREADS (plan/candidate.h, add_product). IN_FLIGHT vectors are loaded
// at a time, or 0: all of them, if the compiler finds the registers. An accumulator stored and
// read again is the same.
template <int THREADS, int IN_FLIGHT = 0, typename Acc, int COUNT>
__device__ __forceinline__ void add_segment(void* totals, Acc (&sums)[COUNT], bool is_first,
                                            bool is_last) {
  constexpr int VECTOR = 16 / sizeof(Acc);
  struct alignas(16) Vector {
    Acc element[VECTOR];
  };
  constexpr int STEP = IN_FLIGHT > 0 ? IN_FLIGHT * VECTOR : COUNT;
  const int64_t block = int64_t{blockIdx.y} * gridDim.x + blockIdx.x;
  Vector* const at =
      static_cast<Vector*>(totals) + block * (COUNT / VECTOR * THREADS) + threadIdx.x;
  if (is_first) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sums[i] = add(Acc{}, sums[i]);
  } else {
    for_each_in_turn<STEP>(sums, [&](int turn) {
#pragma unroll
      for (int v = 0; v < STEP / VECTOR; ++v) {
        const Vector total = at[(turn * (STEP / VECTOR) + v) * THREADS];
#pragma unroll
        for (int i = 0; i < VECTOR; ++i)
          sums[v * VECTOR + i] = add(total.element[i], sums[v * VECTOR + i]);
      }
    });
  }
  if (is_last) return;
#pragma unroll
  for (int v = 0; v < COUNT / VECTOR; ++v) {
    Vector total;
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) total.element[i] = sums[v * VECTOR + i];
    at[v * THREADS] = total;
  }
}

}  // namespace tiled
