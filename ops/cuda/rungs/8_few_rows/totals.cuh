// What a thread of few_rows does with its sums of a piece of K.
#pragma once

#include "core/sum_tree.h"

namespace tiled {

// add(chain, waiting, additions, waits): chain(i) is the i-th sum.
template <typename T, int COUNT, bool TREES>
struct FewRowsTotals;

// Segments: each one's sums are added to a total.
template <typename T, int COUNT>
struct FewRowsTotals<T, COUNT, /*TREES=*/false> {
  struct Waiting {};
  T sum[COUNT];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sum[i] = 0;
  }
  template <typename Chain>
  __device__ __forceinline__ void add(Chain chain, const Waiting&, int, bool) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sum[i] += chain(i);
  }
};

// A tree's leaves: a leaf's sums are added to so many sums that wait, the last first, and if the
// root is not done the result waits too. A sum that is -0 is 0 in front of any other.
template <typename T, int COUNT>
struct FewRowsTotals<T, COUNT, /*TREES=*/true> {
  // Sums wait in the thread's own memory, since a leaf's end is rare and registers are scarce. They
  // are a variable of their own: what is in one variable with them would be in memory too.
  struct Waiting {
    T sums[MOST_WAITING][COUNT];
  };
  T sum[COUNT];
  int count;

  __device__ __forceinline__ void clear() { count = 0; }
  template <typename Chain>
  __device__ __forceinline__ void add(Chain chain, Waiting& waiting, int additions, bool waits) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sum[i] = 0 + chain(i);
#pragma unroll 1
    for (; additions > 0; --additions) {
      --count;
#pragma unroll
      for (int i = 0; i < COUNT; ++i) sum[i] = waiting.sums[count][i] + sum[i];
    }
    if (!waits) return;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) waiting.sums[count][i] = sum[i];
    ++count;
  }
};

}  // namespace tiled
