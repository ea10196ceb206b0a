// Kernels that add up sums in a workspace take VECTOR neighbours of a row so.
#pragma once

#include "cuda/parts/arithmetic/element.cuh"
#include "cuda/plan/sums.h"
#include "cuda/ptx/global.cuh"

namespace tiled {

// The accumulators as they come from L2.
template <typename Sum>
struct Loaded {
  static constexpr int WORDS = SUMS_VECTOR * sizeof(Sum) / sizeof(uint4);
  uint4 words[WORDS];

  __device__ __forceinline__ void load(const Sum* from, ptx::CachePolicy policy) {
#pragma unroll
    for (int i = 0; i < WORDS; ++i)
      words[i] = ptx::load_global(reinterpret_cast<const uint4*>(from) + i, policy);
  }
  __device__ __forceinline__ void add_to(Sum (&total)[SUMS_VECTOR]) const {
    const auto& sums = reinterpret_cast<const Sum(&)[SUMS_VECTOR]>(words);
#pragma unroll
    for (int i = 0; i < SUMS_VECTOR; ++i) total[i] = add(total[i], sums[i]);
  }
};

// Rounded to C's type, those that exist, `step` elements apart.
template <typename Out>
__device__ __forceinline__ void store_vector(Out* to, int64_t step,
                                             const Accumulator<Out> (&sums)[SUMS_VECTOR],
                                             int64_t exist) {
  Out out[SUMS_VECTOR];
#pragma unroll
  for (int j = 0; j < SUMS_VECTOR; ++j) out[j] = Round<Out, Accumulator<Out>>::from(sums[j]);
  if (step == 1 && exist >= SUMS_VECTOR && reinterpret_cast<uintptr_t>(to) % sizeof(out) == 0) {
    struct alignas(sizeof(out) < 16 ? sizeof(out) : 16) Vector {
      Out values[SUMS_VECTOR];
    };
    *reinterpret_cast<Vector*>(to) = reinterpret_cast<const Vector&>(out);
  } else {
    for (int j = 0; j < SUMS_VECTOR && j < exist; ++j) to[j * step] = out[j];
  }
}

}  // namespace tiled
