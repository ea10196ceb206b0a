// bf16 operands for instructions that multiply pairs: elements 2 p and 2 p + 1 of k side by side in
// 32 bits, copied, transposed and, at the end of an odd K, padded with zero.
//
//     b in memory        k = 0:  b00 b01 b02 ...       packed, p = 0:  b00 b10 | b01 b11 | ...
//     (rows of           k = 1:  b10 b11 b12 ...               p = 1:  b20 b30 | b21 b31 | ...
//     neighbours)        k = 2:  b20 b21 b22 ...
//
// A row of neighbours in k is made of pairs as it stands. For vectors of 64 bytes.
#pragma once

#include "cpu/convert.h"
#include "cpu/kernels.h"
#include "cpu/pack.h"
#include "segments.h"

namespace tiled::cpu {
namespace {

constexpr int64_t PAIRS = LANES<uint32_t>;   // of a vector
constexpr int64_t HALVES = LANES<uint16_t>;  // of a vector
using Halves = Vector<uint16_t>;

// The first `count` elements at p, then zeros; none where there is no such row.
inline Halves load_halves(const uint16_t* p, int64_t count) {
  return count <= 0 ? Halves{} : Part<uint16_t>(count < HALVES ? count : HALVES).load(p);
}

inline uint16_t half_or_zero(const uint16_t* p, int64_t index, int64_t stride, int64_t count) {
  return index < count ? p[index * stride] : 0;
}

inline uint32_t pair_at(const uint16_t* p, int64_t pair, int64_t stride, int64_t count) {
  return half_or_zero(p, 2 * pair, stride, count) |
         static_cast<uint32_t>(half_or_zero(p, 2 * pair + 1, stride, count)) << 16;
}

// [k][cols] in rows of neighbours to [k / 2][cols]. Whole vectors are written.
inline void pair_rows(const Pack& pack) {
  constexpr int64_t AHEAD = 4;  // rows
  for (int64_t p = 0; p < pack.steps; ++p) {
    const auto* even = static_cast<const uint16_t*>(pack.src) + 2 * p * pack.row;
    const uint16_t* odd = even + pack.row;
    auto* dst = static_cast<uint32_t*>(pack.dst) + p * pack.dst_row;
    const bool both = 2 * p + 1 < pack.rows;
    for (int64_t j = 0; j < pack.cols; j += HALVES) {
      const int64_t cols = pack.cols - j;
      Halves first, second;
      if (both && cols >= HALVES) {
        __builtin_prefetch(even + j + AHEAD * pack.row);
        __builtin_prefetch(odd + j + AHEAD * pack.row);
        first = load<uint16_t>(even + j);
        second = load<uint16_t>(odd + j);
      } else {
        first = load_halves(even + j, 2 * p < pack.rows ? cols : 0);
        second = load_halves(odd + j, both ? cols : 0);
      }
      store<uint16_t>(dst + j, interleave<uint16_t, false>(first, second));
      if (cols > PAIRS) store<uint16_t>(dst + j + PAIRS, interleave<uint16_t, true>(first, second));
    }
  }
}

// [k][cols] in columns of neighbours to [k / 2][cols]: blocks of 16 x 16 pairs, transposed in
// registers. Whole vectors are written.
inline void pair_columns(const Pack& pack) {
  constexpr int64_t AHEAD = 512;  // bytes
  for (int64_t j = 0; j < pack.cols; j += PAIRS)
    for (int64_t p = 0; p < pack.steps; p += PAIRS) {
      const auto* src = static_cast<const uint16_t*>(pack.src) + 2 * p + j * pack.col;
      auto* dst = static_cast<uint32_t*>(pack.dst) + p * pack.dst_row + j;
      const int64_t left = pack.rows - 2 * p, cols = pack.cols - j, steps = pack.steps - p;
      Vector<uint32_t> block[PAIRS];
      if (left >= HALVES && cols >= PAIRS) {
#pragma GCC unroll 16
        for (int64_t c = 0; c < PAIRS; ++c) {
          __builtin_prefetch(reinterpret_cast<const char*>(src + c * pack.col) + AHEAD);
          block[c] = load<uint32_t>(src + c * pack.col);
        }
      } else {
        for (int64_t c = 0; c < PAIRS; ++c)
          block[c] = (Vector<uint32_t>)load_halves(src + c * pack.col, c < cols ? left : 0);
      }
      transpose<uint32_t>(block);
      if (steps >= PAIRS) {
#pragma GCC unroll 16
        for (int64_t s = 0; s < PAIRS; ++s) store<uint32_t>(dst + s * pack.dst_row, block[s]);
      } else {
        for (int64_t s = 0; s < steps; ++s) store<uint32_t>(dst + s * pack.dst_row, block[s]);
      }
    }
}

// To [k / 2][cols]; also A where its columns are of neighbours.
void pack_pairs_b(const Pack& pack) {
  if (pack.col == 1) return pair_rows(pack);
  if (pack.row == 1) return pair_columns(pack);
  const auto* src = static_cast<const uint16_t*>(pack.src);
  for (int64_t p = 0; p < pack.steps; ++p) {
    auto* dst = static_cast<uint32_t*>(pack.dst) + p * pack.dst_row;
    for (int64_t j = 0; j < pack.padded; ++j)
      dst[j] = j < pack.cols ? pair_at(src + j * pack.col, p, pack.row, pack.rows) : 0;
  }
}

// Columns of neighbours to [rows][k / 2]: two of them make a vector of pairs, 16 of those a block.
inline void pair_and_transpose(const Pack& pack) {
  for (int64_t i = 0; i < pack.rows; i += PAIRS)
    for (int64_t p = 0; p < pack.steps; p += PAIRS) {
      const auto* src = static_cast<const uint16_t*>(pack.src) + i + 2 * p * pack.col;
      auto* dst = static_cast<uint32_t*>(pack.dst) + i * pack.dst_row + p;
      const int64_t left = pack.cols - 2 * p;
      const int64_t rows = pack.rows - i < PAIRS ? pack.rows - i : PAIRS;
      const Part<uint32_t> part(pack.steps - p < PAIRS ? pack.steps - p : PAIRS);
      Vector<uint32_t> block[PAIRS];
      for (int64_t s = 0; s < PAIRS; ++s) {
        const uint16_t* even = src + 2 * s * pack.col;
        const Halves first = load_halves(even, 2 * s < left ? rows : 0);
        const Halves second = load_halves(even + pack.col, 2 * s + 1 < left ? rows : 0);
        block[s] = (Vector<uint32_t>)interleave<uint16_t, false>(first, second);
      }
      transpose<uint32_t>(block);
      for (int64_t r = 0; r < rows; ++r) part.store(dst + r * pack.dst_row, block[r]);
    }
}

// To [rows][k / 2].
void pack_pairs_a(const Pack& pack) {
  if (pack.row == 1 && pack.col != 1) return pair_and_transpose(pack);
  for (int64_t i = 0; i < pack.rows; ++i) {
    const auto* src = static_cast<const uint16_t*>(pack.src) + i * pack.row;
    auto* dst = static_cast<uint32_t*>(pack.dst) + i * pack.dst_row;
    if (pack.col == 1) {
      const int64_t whole = pack.cols / 2;
      memcpy(dst, src, whole * sizeof(uint32_t));
      for (int64_t p = whole; p < pack.steps; ++p) dst[p] = pair_at(src, p, 1, pack.cols);
    } else {
      for (int64_t p = 0; p < pack.steps; ++p) dst[p] = pair_at(src, p, pack.col, pack.cols);
    }
  }
}

// One segment of one element of C, by the instruction that the tiles use.
using DotChain = float (*)(const uint16_t* a, int64_t a_stride, const uint16_t* b, int64_t b_stride,
                           int64_t k);

// The three loops of naive.h around it.
template <DotChain CHAIN>
void naive_dots(const NaiveProblem& problem, int64_t begin, int64_t end) {
  const Strides a = problem.a_strides, b = problem.b_strides, c = problem.c_strides;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t entry = row / problem.m, i = row % problem.m;
    for (int64_t j = 0; j < problem.n; ++j) {
      const auto* x = static_cast<const uint16_t*>(problem.a) + entry * a.batch + i * a.row;
      const auto* y = static_cast<const uint16_t*>(problem.b) + entry * b.batch + j * b.col;
      float total = 0;
      for (int64_t segment = 0; segment < segment_count(problem.k); ++segment) {
        const int64_t k = segment_begin(segment);
        total +=
            CHAIN(x + k * a.col, a.col, y + k * b.row, b.row, segment_end(segment, problem.k) - k);
      }
      const int64_t at = entry * c.batch + i * c.row + j * c.col;
      if (problem.unrounded)
        static_cast<float*>(problem.c)[at] = total;
      else
        static_cast<uint16_t*>(problem.c)[at] = BFloat16::narrow(total);
    }
  }
}

}  // namespace
}  // namespace tiled::cpu
