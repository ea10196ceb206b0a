// What a block does of the batch and of K's segments. The grid's y counts turns: an entry of the
// batch each, or, in split-K, a segment of an entry; a block goes on to the next
// by the grid's height.
#pragma once

#include "core/problem.h"
#include "core/segments.h"

namespace tiled {

// K = 0 has one segment of no length here, which stores zeros.
__device__ __forceinline__ int64_t segments_of(const Problem& problem) {
  return problem.k == 0 ? 1 : segment_count(problem.k);
}

__device__ __forceinline__ int64_t turns_of(const Problem& problem, bool shares_segments) {
  return shares_segments ? problem.batch * segments_of(problem) : problem.batch;
}

// Its sums go to entry `turn` of C, or of the sums that stand for it (plan/sums.h).
__device__ __forceinline__ int64_t entry_of(const Problem& problem, bool shares_segments,
                                            int64_t turn) {
  return shares_segments ? turn % problem.batch : turn;
}

// Its segments: one, or all of them. (What can be said anew costs the kernels no register.)
__device__ __forceinline__ int64_t first_segment_of(const Problem& problem, bool shares_segments,
                                                    int64_t turn) {
  return shares_segments ? turn / problem.batch : 0;
}
__device__ __forceinline__ bool is_first_segment(bool shares_segments, int64_t segment) {
  return shares_segments || segment == 0;
}
__device__ __forceinline__ bool is_last_segment(const Problem& problem, bool shares_segments,
                                                int64_t segment) {
  return shares_segments || segment + 1 == segments_of(problem);
}

}  // namespace tiled
