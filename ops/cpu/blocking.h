// How one product is computed: all choices, made before the loops begin (blocking.cpp), in plain
// numbers. None of them changes a bit of the result.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/problem.h"
#include "core/segments.h"
#include "cpu/kernels.h"

namespace tiled::cpu {

// x / y of numbers >= 0. A 64-bit division takes 40 to 90 cycles on many CPUs, a 32-bit one a half
// or a third of that.
constexpr int64_t divide(int64_t x, int64_t y) {
  if ((x | y) >> 32 == 0) return static_cast<uint32_t>(x) / static_cast<uint32_t>(y);
  return x / y;
}
constexpr int64_t ceil_div(int64_t x, int64_t y) { return divide(x + y - 1, y); }
constexpr int64_t round_up(int64_t x, int64_t y) { return ceil_div(x, y) * y; }

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// Piece `index` of [0, size), cut into `parts` that differ by at most one `unit`: an even cut has
// no short piece at the end.
inline Range piece(int64_t size, int64_t parts, int64_t index, int64_t unit = 1) {
  const int64_t units = ceil_div(size, unit);
  return {std::min(size, divide(units * index, parts) * unit),
          std::min(size, divide(units * (index + 1), parts) * unit)};
}

constexpr int64_t MAX_GROUP = 4;  // tiles

// Sizes count accumulators, of which a complex number has two side by side, and k counts steps,
// which may be of several elements (words.h), and of a complex product come twice, once for each
// part of A (pack.h); strides count elements.
struct Blocking {
  const Kernels* kernels;
  const Codec* codec;   // of A and B
  const Codec* out;     // of C
  int64_t bytes;        // of an accumulator
  int64_t element;      // bytes of an element of A and B
  int64_t out_element;  // bytes of an element of C
  int64_t batch, m, n, k;
  int64_t depth;  // elements of K
  const char *a, *b;
  char* c;
  Strides a_strides, b_strides, c_strides;
  const Epilogue* epilogue;  // null: the identity
  bool swap_ab;              // A and B have changed places, the epilogue is C's, not C'
  const ChainTable* chains;

  int64_t parts_m, parts_n;  // regions of each C, one for a thread at a time
  int64_t tile_rows;         // of the largest tile
  int64_t group;             // tiles below each other that use a strip of B in turn
  int64_t strip;             // columns of the widest tile
  bool dot;                  // B's columns of neighbours are read by dot_kernel.h,
  bool raw;                  // or its rows of 16-bit elements by raw_kernel.h,
                             // or its rows, packed or not, by micro_kernel.h or amx.cpp
  bool pack_a, pack_b;
  bool a_by_k;      // a packed tile of A stands as [k][rows], else as [rows][k]
  bool direct_c;    // sums are formed in C itself,
  bool round_c;     // or rounded to it by the last block's tiles; neither with an epilogue
  int64_t block_k;  // of K, worked on together: the longest block
  int64_t unit_k;   // blocks begin at multiples of it, counted from their segment's begin
  int64_t panel;    // columns of B, worked on together
  int64_t ahead;    // bytes from a row of a strip of B to what is fetched when it is read

  // Steps that so many elements of K take, from 0 on. Fold is 1, 2 or 4.
  int64_t steps_of(int64_t elements) const {
    return (elements + codec->fold - 1) >> (codec->fold >> 1);
  }
  // Where in K, in elements, a step begins.
  int64_t element_of(int64_t step) const { return step * codec->fold; }
  int64_t regions() const { return batch * parts_m * parts_n; }
};

// Which of ChainTable's codecs and functions read the problem's operands.
constexpr int kind_of(const Problem& problem) {
  if (problem.epilogue.out_dtype == DType::Int32 && problem.dtype == DType::Int8) return WHOLE_INT8;
  if (problem.epilogue.out_dtype == DType::Int32 && problem.dtype == DType::UInt8)
    return WHOLE_UINT8;
  return static_cast<int>(problem.dtype);
}

// The level's instructions for words of such elements, or null where the product runs on chains.
const DotTable* dots_of(const Problem& problem, const Level& level);

Blocking choose_blocking(const Problem& problem, const Level& level, int threads);

}  // namespace tiled::cpu
