// Where K is cut, the one rule that every kernel of this library obeys (README, "One answer").
//
// K is cut at every multiple of SEGMENT_K. Inside a segment the products are summed as one chain,
// k ascending, that starts from +0. The segment sums are then added in ascending order to a total
// that starts from +0 as well:
//
//     total = +0
//     for each segment s:  chain = +0
//                          for k in [begin(s), end(s)):  chain = a[k] * b[k] + chain
//                          total = total + chain
//
// The cuts depend on K alone, so the bits of an element of C do not depend on M, N, the tile, the
// grid or the number of threads; and a kernel may hand segments to different blocks without
// changing a bit. Three consequences are used elsewhere:
//   - a chain is at most SEGMENT_K long, which bounds the growth of rounding error;
//   - a zero result is always +0, because +0 + -0 = +0; so zero padding at the end of a chain
//     (+0 * +0, which could turn an underflowed -0 into +0) cannot be seen from outside;
//   - K = 0 has no segment and gives +0.
#pragma once

#include <cstdint>

namespace tiled {

constexpr int64_t SEGMENT_K = 4096;  // elements of K

constexpr int64_t segment_count(int64_t k) { return (k + SEGMENT_K - 1) / SEGMENT_K; }

constexpr int64_t segment_begin(int64_t segment) { return segment * SEGMENT_K; }

constexpr int64_t segment_end(int64_t segment, int64_t k) {
  return (segment + 1) * SEGMENT_K < k ? (segment + 1) * SEGMENT_K : k;
}

}  // namespace tiled
