// Where K is cut: the one rule that every kernel of this library obeys (docs/contract.md).
//
// K below DEEP_K is one segment; from DEEP_K on K is cut at every multiple of SEGMENT_K. Inside a
// segment the products are summed as one chain, k ascending, that starts from +0. The segment sums
// are then added in ascending order to a total that starts from +0 as well:
//
//     total = +0
//     for each segment s:  chain = +0
//                          for k in [begin(s), end(s)):  chain = a[k] * b[k] + chain
//                          total = total + chain
//
// A kernel may work on a segment in blocks, as the CPU does for its caches: it keeps the chain so
// far and goes on from there.
//
// The cuts depend on K alone, so the bits of an element of C do not depend on M, N, the tile, the
// grid or the number of threads; and a kernel may hand segments to different blocks without
// changing a bit. Three consequences are used elsewhere:
//   - a chain is shorter than DEEP_K, and for K from there on at most SEGMENT_K long, which bounds
//     the growth of rounding error;
//   - a zero result is always +0, because +0 + -0 = +0; so zero padding at the end of a chain
//     (+0 * +0, which could turn an underflowed -0 into +0) cannot be seen from outside;
//   - K = 0 has no segment and gives +0.
//
// Why two numbers. A cut costs a large C its totals: cut from 8192 on, as deep as the layers of
// today's models are, 16-bit products on an H100 took 2.6 % longer by the best way to run them, and
// 7 % with totals in memory (docs/decisions/027). Deep K with a small C needs the cuts: only they
// let it fill the GPU.
#pragma once

#include <cstdint>

namespace tiled {

constexpr int64_t SEGMENT_K = 4096;  // elements of a segment, where there are several
constexpr int64_t DEEP_K = 32768;    // the smallest K that has several

static_assert(DEEP_K > SEGMENT_K, "a K that is cut has two segments at least");

// Elements of every segment but the last, which may be shorter.
constexpr int64_t segment_size(int64_t k) { return k < DEEP_K ? k : SEGMENT_K; }

constexpr int64_t segment_count(int64_t k) {
  return k < DEEP_K ? (k > 0 ? 1 : 0) : (k + SEGMENT_K - 1) / SEGMENT_K;
}

constexpr int64_t segment_begin(int64_t segment) { return segment * SEGMENT_K; }

constexpr int64_t segment_end(int64_t segment, int64_t k) {
  return segment + 1 < segment_count(k) ? (segment + 1) * SEGMENT_K : k;
}

// Steps of STEP elements, a divisor of SEGMENT_K, in every segment but the last. A constant of the
// type, so that a kernel's code does not depend on which others its file has.
template <int64_t STEP>
constexpr int64_t segment_steps(int64_t k) {
  return (segment_size(k) + STEP - 1) / STEP;
}

}  // namespace tiled
