// The other micro-kernel: few rows of A, and a B whose neighbours in memory are neighbours in k. It
// reads B once, as it comes, and turns it in registers, L x L operands at a time:
//
// clang-format off
//      b: [k][cols], columns of neighbours
//           cols                         cols
//      +---------------+            +---------------+
//      | | | | | | | | |            | ------------> |    then acc[i] += a[i][k] * row k of the
//    k | | | | | | | | |  transpose | ------------> | k  block, k ascending: the same chains as
//      | | | | | | | | |    --->    | ------------> |    ever, L columns side by side
//      | v v v v v v v |            | ------------> |
//      +---------------+            +---------------+
// clang-format on
//
// Elements smaller than operands are turned as they stand and widened when they are used: the fewer
// vectors to turn, and each cache line is read once.
//
// A product of few rows is bound by reading B; packing it first would write and read it again.
#pragma once

#include "cpu/kernels.h"
#include "cpu/transpose.h"

namespace tiled::cpu {
namespace {

// COLS columns of a vector of elements each: turned[i] holds row i, row i + COLS, and so on.
template <typename T, int64_t COLS>
inline __attribute__((always_inline)) void turn(const T* b, int64_t col, Vector<T>* turned) {
  Vector<T> block[COLS];
#pragma GCC unroll 32
  for (int64_t c = 0; c < COLS; ++c) block[c] = load<T>(b + c * col);
  transpose<T, COLS>(block);
#pragma GCC unroll 32
  for (int64_t i = 0; i < COLS; ++i) turned[i] = block[i];
}

// The same of `steps` elements in each of the first `cols` columns: the others are zero.
template <typename T, int64_t COLS>
inline __attribute__((always_inline)) void turn_some(const T* b, int64_t col, int64_t cols,
                                                     int64_t steps, Vector<T>* turned) {
  const Part<T> part(steps);
  Vector<T> block[COLS];
#pragma GCC unroll 32
  for (int64_t c = 0; c < COLS; ++c) block[c] = c < cols ? part.load(b + c * col) : Vector<T>{};
  transpose<T, COLS>(block);
#pragma GCC unroll 32
  for (int64_t i = 0; i < COLS; ++i) turned[i] = block[i];
}

// In `tile`, b_k counts elements of memory from one column to the next, and a_k is 1. Kind widens
// the elements to the operands of Math.
//
// Whole blocks of few multiply-adds run without a loop, and operands stay in registers as far as
// they fit. Larger ones wait on the stack for a loop: unrolled, a block of 16 rows or of 32 steps
// took up to 30 % longer.
//
// Columns are far apart, where no hardware looks ahead along so many of them, and are fetched one
// by one between the steps: as many requests at once would wait for each other.
template <typename Kind, typename Math, int ROWS>
void dot_tile(const Tile& tile) {
  using Element = typename Kind::Element;
  using Operand = typename Math::Operand;
  using Sum = typename Math::Sum;
  constexpr int64_t L = LANES<Operand>, STEPS = LANES<Element>;
  constexpr bool UNROLLED = STEPS <= 16 && STEPS * ROWS <= 128;
  constexpr int64_t AHEAD = 384;  // bytes
  const Part<Sum> part(tile.last);

  Vector<Sum> acc[ROWS] = {};
  if (tile.start != nullptr) {
    const Sum* start = static_cast<const Sum*>(tile.start);
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; ++i, start += tile.start_row) acc[i] = part.load(start);
  }

  const Operand* a = static_cast<const Operand*>(tile.a);
  const Element* b = static_cast<const Element*>(tile.b);
  [[maybe_unused]] Vector<Sum> excess = {};  // of every row
  const bool whole = tile.last == L;
  int64_t k = tile.k;
  if constexpr (UNROLLED) {
    for (; whole && k >= STEPS; k -= STEPS, b += STEPS) {
      Vector<Element> turned[L];
      turn<Element, L>(b, tile.b_k, turned);
#pragma GCC unroll 32
      for (int64_t s = 0; s < STEPS; ++s, ++a) {
        if (s % (STEPS / L) == 0) {
          const Element* column = b + s / (STEPS / L) * tile.b_k;
          __builtin_prefetch(reinterpret_cast<const char*>(column) + AHEAD);
        }
        const auto* row = reinterpret_cast<const Element*>(turned + s % L) + s / L * L;
        const Vector<Operand> v = Kind::widen_vector(row);
        if constexpr (Math::EXCEEDS) excess = Math::excess(v, excess);
#pragma GCC unroll 16
        for (int i = 0; i < ROWS; ++i) acc[i] = Math::step(a[i * tile.a_row], v, acc[i]);
      }
    }
  }
  for (; k > 0; k -= STEPS, b += STEPS) {
    Vector<Element> turned[L];
    if (!UNROLLED && whole && k >= STEPS)
      turn<Element, L>(b, tile.b_k, turned);
    else
      turn_some<Element, L>(b, tile.b_k, tile.last, k < STEPS ? k : STEPS, turned);
    const Element* ahead = b;
#pragma GCC unroll 2
    for (int64_t first = 0; first < STEPS; first += L) {
      const auto* row = reinterpret_cast<const Element*>(turned) + first;
      const int64_t steps = k - first < L ? k - first : L;
#pragma GCC unroll 8
      for (int64_t s = 0; s < steps; ++s, ++a, row += STEPS) {
        if (!UNROLLED && s % (STEPS / L) == 0) {
          __builtin_prefetch(reinterpret_cast<const char*>(ahead) + AHEAD);
          ahead += tile.b_k;
        }
        const Vector<Operand> v = Kind::widen_vector(row);
        if constexpr (Math::EXCEEDS) excess = Math::excess(v, excess);
#pragma GCC unroll 16
        for (int i = 0; i < ROWS; ++i) acc[i] = Math::step(a[i * tile.a_row], v, acc[i]);
      }
    }
  }

  Sum* out = static_cast<Sum*>(tile.out);
#pragma GCC unroll 16
  for (int i = 0; i < ROWS; ++i, out += tile.out_row) {
    const Vector<Sum> total = tile.add ? part.load(out) : Vector<Sum>{};
    if constexpr (Math::EXCEEDS) acc[i] -= excess;
    part.store(out, total + acc[i]);
  }
}

template <typename Kind, typename Math, int FULL_ROWS, int ROWS = 1>
constexpr void add_dot_tiles(Kernels& kernels) {
  kernels.wide[ROWS] = 1;
  kernels.tile[ROWS][1] = &dot_tile<Kind, Math, ROWS>;
  if constexpr (ROWS < FULL_ROWS) add_dot_tiles<Kind, Math, FULL_ROWS, ROWS + 1>(kernels);
}

template <typename Kind, typename Math, int ROWS>
constexpr Kernels dot_kernels() {
  Kernels kernels = {};
  kernels.lanes = LANES<typename Math::Sum>;
  kernels.rows = ROWS;
  kernels.row_unit = 1;
  add_dot_tiles<Kind, Math, ROWS>(kernels);
  return kernels;
}

}  // namespace
}  // namespace tiled::cpu
