// A block takes its part of the batch and of K's segments. The grid's y counts turns: an entry of
// the batch each, or, in split-K, a segment of an entry, or a leaf; a block goes on to the next by
// the grid's height.
#pragma once

#include "core/problem.h"
#include "core/segments.h"
#include "core/sum_tree.h"

namespace tiled {

// K = 0 has one segment of no length here, which stores zeros.
__device__ __forceinline__ int64_t segments_of(const Problem& problem) {
  return problem.k == 0 ? 1 : segment_count(problem.k);
}

__device__ __forceinline__ int64_t turns_of(const Problem& problem, bool split_k,
                                            const LeafTable& leaves) {
  const auto shared = [&] { return problem.leaf > 0 ? leaves.count : segments_of(problem); };
  return split_k ? problem.batch * shared() : problem.batch;
}

// Its sums go to entry `turn` of C, or of the sums that stand for it (plan/sums.h).
__device__ __forceinline__ int64_t entry_of(const Problem& problem, bool split_k, int64_t turn) {
  return split_k ? turn % problem.batch : turn;
}

// Its segments: one, or all of them. (What can be said anew costs the kernels no register.)
__device__ __forceinline__ int64_t first_segment_of(const Problem& problem, bool split_k,
                                                    int64_t turn) {
  return split_k ? turn / problem.batch : 0;
}
// Where it begins in K and ends. MAY_SHARE: false for kernels that have no split-K, and so no
// leaves.
struct Stretch {
  int64_t begin, end;
};
template <bool MAY_SHARE = true>
__device__ __forceinline__ Stretch stretch_of(const Problem& problem, int64_t segment,
                                              const LeafTable& leaves) {
  if (MAY_SHARE && problem.leaf > 0) return {leaves.begins[segment], leaves.begins[segment + 1]};
  return {segment_begin(segment), segment_end(segment, problem.k)};
}
__device__ __forceinline__ bool is_first_segment(bool split_k, int64_t segment) {
  return split_k || segment == 0;
}
__device__ __forceinline__ bool is_last_segment(const Problem& problem, bool split_k,
                                                int64_t segment) {
  return split_k || segment + 1 == segments_of(problem);
}

}  // namespace tiled
