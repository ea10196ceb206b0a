// A thread of few_rows adds up its sums of a piece of K.
#pragma once

#include <cuda_runtime_api.h>

namespace tiled {

// add(chain, additions, waits): chain(i) is the i-th sum.
template <typename T, int COUNT, bool TREES, int WAITING>
struct FewRowsTotals;

// Segments: each one's sums are added to a total.
template <typename T, int COUNT, int WAITING>
struct FewRowsTotals<T, COUNT, /*TREES=*/false, WAITING> {
  T sum[COUNT];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sum[i] = 0;
  }
  template <typename Chain>
  __device__ __forceinline__ void add(Chain chain, int, bool) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sum[i] += chain(i);
  }
};

// A tree's leaves: a leaf's sums are added to so many sums that wait, the last first, and if the
// root is not done the result waits too. A sum that is -0 is 0 in front of any other.
template <typename T, int COUNT, int WAITING>
struct FewRowsTotals<T, COUNT, /*TREES=*/true, WAITING> {
  T sum[COUNT], waiting[WAITING == 0 ? 1 : WAITING][COUNT];
  int count;

  __device__ __forceinline__ void clear() { count = 0; }
  template <typename Chain>
  __device__ __forceinline__ void add(Chain chain, int additions, bool waits) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sum[i] = 0 + chain(i);
#pragma unroll 1
    for (; additions > 0; --additions) {
      --count;
      for_last([&](T(&last)[COUNT]) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) sum[i] = last[i] + sum[i];
      });
    }
    if (!waits) return;
    for_last([&](T(&last)[COUNT]) {
#pragma unroll
      for (int i = 0; i < COUNT; ++i) last[i] = sum[i];
    });
    ++count;
  }

 private:
  // Registers have no index that the compiler does not know.
  template <typename Function>
  __device__ __forceinline__ void for_last(Function function) {
#pragma unroll
    for (int i = 0; i < WAITING; ++i)
      if (count == i) function(waiting[i]);
  }
};

}  // namespace tiled
