// The micro-kernel: ROWS x VECTORS vectors of C in registers, one text for every instruction set.
//
//                 b: [k][VECTORS * LANES]
//                    one step: VECTORS loads
//                      |     |
//     a: [ROWS][k]   +-----+-----+
//     one step: ---> |     |     |   ROWS * VECTORS accumulators, each one chain of
//     ROWS scalars,  +-----+-----+   multiply-adds with k ascending
//     spread to all  |     |     |
//     lanes          +-----+-----+
//
// A step of ROWS x VECTORS multiply-adds needs ROWS + VECTORS loads: the larger the tile, the fewer
// loads a multiply-add; the registers set the limit (each level's file gives its numbers).
#pragma once

#include "cpu/kernels.h"
#include "cpu/vectors.h"

namespace tiled::cpu {
namespace {

template <typename T, int ROWS, int VECTORS>
void multiply_tile(const Tile& tile) {
  constexpr int64_t L = LANES<T>;
  constexpr int LAST = VECTORS - 1;
  const Part<T> part(tile.last);
  Vector<T> acc[ROWS][VECTORS];

  if (tile.start == nullptr) {
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; ++i)
#pragma GCC unroll 16
      for (int j = 0; j < VECTORS; ++j) acc[i][j] = Vector<T>{};
  } else {
    const T* start = static_cast<const T*>(tile.start);
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; ++i) {
#pragma GCC unroll 16
      for (int j = 0; j < LAST; ++j) acc[i][j] = load<T>(start + j * L);
      acc[i][LAST] = part.load(start + LAST * L);
      start += tile.start_row;
    }
  }

  // The next tile's C comes from memory while this one's products are summed.
  const T* next = static_cast<const T*>(tile.next);
#pragma GCC unroll 16
  for (int i = 0; i < ROWS; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < VECTORS; ++j) __builtin_prefetch(next + j * L, 1);
    next += tile.out_row;
  }

  const T* a = static_cast<const T*>(tile.a);
  const T* b = static_cast<const T*>(tile.b);
  const int64_t a_row = tile.a_row;
  const auto steps = [&](auto load_last) __attribute__((always_inline)) {
    for (int64_t p = 0; p < tile.k; ++p) {
      Vector<T> row[VECTORS];
#pragma GCC unroll 16
      for (int j = 0; j < LAST; ++j) row[j] = load<T>(b + j * L);
      row[LAST] = load_last(b + LAST * L);
#pragma GCC unroll 16
      for (int i = 0; i < ROWS; ++i) {
        const T scalar = a[i * a_row];
#pragma GCC unroll 16
        for (int j = 0; j < VECTORS; ++j) acc[i][j] += scalar * row[j];
      }
      a += tile.a_k;
      b += tile.b_k;
    }
  };
  if (tile.padded || tile.last == L) {
    steps([](const T* p) __attribute__((always_inline)) { return load<T>(p); });
  } else {
    steps([&](const T* p) __attribute__((always_inline)) { return part.load(p); });
  }

  T* out = static_cast<T*>(tile.out);
#pragma GCC unroll 16
  for (int i = 0; i < ROWS; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < VECTORS; ++j) {
      Vector<T> total = {};
      if (tile.add) total = j < LAST ? load<T>(out + j * L) : part.load(out + j * L);
      total += acc[i][j];
      if (j < LAST) {
        store<T>(out + j * L, total);
      } else {
        part.store(out + j * L, total);
      }
    }
    out += tile.out_row;
  }
}

}  // namespace
}  // namespace tiled::cpu
