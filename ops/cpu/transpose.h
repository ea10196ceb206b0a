// Square blocks of elements transposed in registers, by shuffles of two vectors.
//
// On x86, vectors are made of pieces of 16 bytes: what stays within its piece costs one short
// instruction, what crosses over a longer one. So a block is transposed within pieces first, P x P
// elements at a time, and then its pieces change places:
//
//     a0 a1 | a2 a3         a0 b0 | a2 b2         a0 b0 | c0 d0
//     b0 b1 | b2 b3   -->   a1 b1 | a3 b3   -->   a1 b1 | c1 d1
//     c0 c1 | c2 c3         c0 d0 | c2 d2         a2 b2 | c2 d2
//     d0 d1 | d2 d3         c1 d1 | c3 d3         a3 b3 | c3 d3       P = 2, two pieces
#pragma once

#include "cpu/vectors.h"

namespace tiled::cpu {
namespace {

template <typename T>
constexpr int64_t PIECE = 16 / sizeof(T);  // elements

template <int64_t BYTES>
struct IndexOf;
template <>
struct IndexOf<1> {
  typedef uint8_t Type;
};
template <>
struct IndexOf<2> {
  typedef uint16_t Type;
};
template <>
struct IndexOf<4> {
  typedef uint32_t Type;
};
template <>
struct IndexOf<8> {
  typedef uint64_t Type;
};

// Lane i of the result is lane Pick::of(i) of a, or that less LANES of b.
template <typename T, typename Pick>
inline __attribute__((always_inline)) Vector<T> shuffle(Vector<T> a, Vector<T> b) {
  constexpr int64_t L = LANES<T>;
#ifdef __clang__
  Vector<T> result;
  for (int64_t i = 0; i < L; ++i) {
    const int64_t from = Pick::of(i);
    result[i] = from < L ? a[from] : b[from - L];
  }
  return result;
#else
  Vector<typename IndexOf<sizeof(T)>::Type> pick;
  for (int64_t i = 0; i < L; ++i) pick[i] = Pick::of(i);
  return __builtin_shuffle(a, b, pick);
#endif
}

// a0 b0 a1 b1 ... of the lower or the upper half of every SPAN elements.
template <typename T, int64_t SPAN, bool UPPER>
struct Interleaved {
  static constexpr int64_t of(int64_t i) {
    const int64_t within = i % SPAN;
    return i - within + (UPPER ? SPAN / 2 : 0) + within / 2 + i % 2 * LANES<T>;
  }
};

template <typename T, bool UPPER>
inline __attribute__((always_inline)) Vector<T> interleave(Vector<T> a, Vector<T> b) {
  return shuffle<T, Interleaved<T, LANES<T>, UPPER>>(a, b);
}

// Takes the lower or the upper half of every 2 STEP elements, a's and then b's.
template <typename T, int64_t STEP, bool UPPER>
struct SameHalves {
  static constexpr int64_t of(int64_t i) {
    const int64_t within = i % (2 * STEP);
    return i - within + (UPPER ? STEP : 0) + within % STEP + within / STEP * LANES<T>;
  }
};

// rows[i][j] <-> rows[j][i] for blocks of STEP x STEP, then of twice that, up to ROWS x ROWS.
template <typename T, int64_t ROWS, int64_t STEP>
inline __attribute__((always_inline)) void transpose_blocks(Vector<T>* rows) {
  if constexpr (STEP < ROWS) {
#pragma GCC unroll 32
    for (int64_t i = 0; i < ROWS; ++i) {
      if (i / STEP % 2 == 1) continue;
      const Vector<T> a = rows[i], b = rows[i + STEP];
      rows[i] = shuffle<T, SameHalves<T, STEP, false>>(a, b);
      rows[i + STEP] = shuffle<T, SameHalves<T, STEP, true>>(a, b);
    }
    transpose_blocks<T, ROWS, 2 * STEP>(rows);
  }
}

// rows[i][j] <-> rows[j][i] in each block of ROWS x ROWS: a square, or several side by side. Within
// pieces, one round sends row i to the lower and row i + P/2 to the upper of two neighbours,
// element by element: the index bits of (row, lane) turn by one place. After log2(P) rounds row and
// lane have changed places.
template <typename T, int64_t ROWS = LANES<T>>
inline __attribute__((always_inline)) void transpose(Vector<T>* rows) {
  constexpr int64_t P = PIECE<T>;
  if constexpr (ROWS < P) {
    transpose_blocks<T, ROWS, 1>(rows);
  } else {
#pragma GCC unroll 8
    for (int64_t round = 1; round < P; round *= 2) {
      Vector<T> next[ROWS];
#pragma GCC unroll 32
      for (int64_t i = 0; i < ROWS / 2; ++i) {
        const int64_t to = i / (P / 2) * P + i % (P / 2) * 2, from = i / (P / 2) * P + i % (P / 2);
        next[to] = shuffle<T, Interleaved<T, P, false>>(rows[from], rows[from + P / 2]);
        next[to + 1] = shuffle<T, Interleaved<T, P, true>>(rows[from], rows[from + P / 2]);
      }
#pragma GCC unroll 32
      for (int64_t i = 0; i < ROWS; ++i) rows[i] = next[i];
    }
    transpose_blocks<T, ROWS, P>(rows);
  }
}

}  // namespace
}  // namespace tiled::cpu
