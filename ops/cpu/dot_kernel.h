// The other micro-kernel: few rows of A, and a B whose neighbours in memory are neighbours in k. It
// reads B once, as it comes, and turns it in registers, L x L elements at a time:
//
//      b: [k][cols], columns of neighbours
//      cols                           k
//      +----------------+            +----------------+
//      | | | | | | | |  |  transpose | ------------   |  then acc[i] += a[i][k] * row k of the
//      block, | v v v v v v v  |    --->    | ------------   |  k ascending: the same chains as
//      ever, L
//      +----------------+            +----------------+  columns side by side
//
// A matrix-vector product is bound by reading B; packing it first would write and read it again.
#pragma once

#include "cpu/kernels.h"
#include "cpu/micro_kernel.h"
#include "cpu/pack.h"

namespace tiled::cpu {
namespace {

// In `tile`, b_k counts elements of memory from one column to the next. Kind widens them to the
// operands of Math.
template <typename Kind, typename Math, int ROWS>
void dot_tile(const Tile& tile) {
  using Operand = typename Math::Operand;
  using Sum = typename Math::Sum;
  constexpr int64_t L = LANES<Sum>;
  constexpr int64_t AHEAD = 512;  // bytes
  const Part<Sum> part(tile.last);
  const Operand* a = static_cast<const Operand*>(tile.a);
  const auto* b = static_cast<const typename Kind::Element*>(tile.b);

  Vector<Sum> acc[ROWS];
  for (int i = 0; i < ROWS; ++i)
    acc[i] = tile.start == nullptr
                 ? Vector<Sum>{}
                 : part.load(static_cast<const Sum*>(tile.start) + i * tile.start_row);

  int64_t p = 0;
  if (tile.last == L) {
    for (; p + L <= tile.k; p += L) {
      Vector<Operand> block[L];
#pragma GCC unroll 32
      for (int64_t c = 0; c < L; ++c) {
        const auto* column = b + c * tile.b_k + p;
        __builtin_prefetch(reinterpret_cast<const char*>(column) + AHEAD);
        block[c] = Kind::widen_vector(column);
      }
      transpose<Operand>(block);
#pragma GCC unroll 32
      for (int64_t s = 0; s < L; ++s) {
        const Operand* scalar = a + (p + s) * tile.a_k;
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; ++i)
          acc[i] = Math::step(scalar[i * tile.a_row], block[s], acc[i]);
      }
    }
  }
  for (; p < tile.k; p += L) {  // the last steps, or fewer columns
    const int64_t steps = tile.k - p < L ? tile.k - p : L;
    Vector<Operand> block[L] = {};
    for (int64_t c = 0; c < tile.last; ++c)
      block[c] = widen_some<Kind>(b + c * tile.b_k + p, steps);
    transpose<Operand>(block);
    for (int64_t s = 0; s < steps; ++s) {
      const Operand* scalar = a + (p + s) * tile.a_k;
      for (int i = 0; i < ROWS; ++i) acc[i] = Math::step(scalar[i * tile.a_row], block[s], acc[i]);
    }
  }

  Sum* out = static_cast<Sum*>(tile.out);
  for (int i = 0; i < ROWS; ++i, out += tile.out_row) {
    const Vector<Sum> total = tile.add ? part.load(out) : Vector<Sum>{};
    part.store(out, total + acc[i]);
  }
}

}  // namespace
}  // namespace tiled::cpu
