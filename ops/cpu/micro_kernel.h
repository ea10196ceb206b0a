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

// Rows of VECTORS vectors of which the last may be part of one: `Last` reads and writes it.
template <typename T, int VECTORS, typename Last>
inline __attribute__((always_inline)) void load_row(Vector<T>* row, const T* p, const Last& last) {
  constexpr int64_t L = LANES<T>;
#pragma GCC unroll 16
  for (int j = 0; j < VECTORS - 1; ++j) row[j] = load<T>(p + j * L);
  row[VECTORS - 1] = last.load(p + (VECTORS - 1) * L);
}

template <typename T, int VECTORS, typename Last>
inline __attribute__((always_inline)) void store_row(T* p, const Vector<T>* row, const Last& last) {
  constexpr int64_t L = LANES<T>;
#pragma GCC unroll 16
  for (int j = 0; j < VECTORS - 1; ++j) store<T>(p + j * L, row[j]);
  last.store(p + (VECTORS - 1) * L, row[VECTORS - 1]);
}

// A step computes sum + a * b, with a an Operand and b a vector of them.
template <typename T>
struct Chain {
  using Operand = T;
  using Sum = T;
  using Rounded = T;
  static constexpr bool ROUNDS = false;  // else round() stores a vector of sums as Rounded
  // Else a step adds too much to each of a column's sums: excess(b, excess so far).
  static constexpr bool EXCEEDS = false;
  static inline __attribute__((always_inline)) Vector<T> step(T a, Vector<T> b, Vector<T> sum) {
    return accumulate<T>(a, b, sum);
  }
};

// Inlined, since GCC drops calls of a function that does nothing but fetch.
template <int ROWS, int64_t BYTES, bool WRITES>
inline __attribute__((always_inline)) void fetch_rows(const void* rows, int64_t row) {
  const char* p = static_cast<const char*>(rows);
#pragma GCC unroll 16
  for (int i = 0; i < ROWS; ++i, p += row)
#pragma GCC unroll 16
    for (int64_t at = 0; at < BYTES; at += LINE) __builtin_prefetch(p + at, WRITES);
}

// Reads row after row of b. Other readers make the same vectors from other layouts (raw_kernel.h).
template <typename T, int VECTORS, typename Last>
class RowReader {
 public:
  RowReader(const Tile& tile, const Last& last)
      : b_(static_cast<const T*>(tile.b)), step_(tile.b_k), ahead_(tile.ahead), last_(last) {}
  inline __attribute__((always_inline)) void read(Vector<T>* row) {
    fetch_rows<1, VECTORS * VECTOR, false>(reinterpret_cast<const char*>(b_) + ahead_, 0);
    load_row<T, VECTORS>(row, b_, last_);
    b_ += step_;
  }

 private:
  const T* b_;
  int64_t step_, ahead_;
  Last last_;
};

template <typename Math, int ROWS, int VECTORS, typename Reader, typename LastOfC>
inline __attribute__((always_inline)) void multiply(const Tile& tile, Reader b,
                                                    const LastOfC& last_of_c) {
  using Operand = typename Math::Operand;
  using T = typename Math::Sum;
  Vector<T> acc[ROWS][VECTORS];
  const T* start = static_cast<const T*>(tile.start);
  if (start == nullptr) {
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; ++i)
#pragma GCC unroll 16
      for (int j = 0; j < VECTORS; ++j) acc[i][j] = Vector<T>{};
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; ++i, start += tile.start_row)
      load_row<T, VECTORS>(acc[i], start, last_of_c);
  }

  // The next tile's C comes from memory while this one's products are summed.
  if (Math::ROUNDS && tile.round) {
    constexpr int64_t SIZE = sizeof(typename Math::Rounded);
    fetch_rows<ROWS, VECTORS * LANES<T> * SIZE, true>(tile.next, tile.out_row * SIZE);
  } else {
    fetch_rows<ROWS, VECTORS * VECTOR, true>(tile.next, tile.out_row * sizeof(T));
  }

  const Operand* a = static_cast<const Operand*>(tile.a);
  const int64_t a_row = tile.a_row;
  [[maybe_unused]] Vector<T> excess[VECTORS] = {};
  for (int64_t p = 0; p < tile.k; ++p) {
    Vector<Operand> row[VECTORS];
    b.read(row);
    if constexpr (Math::EXCEEDS) {
#pragma GCC unroll 16
      for (int j = 0; j < VECTORS; ++j) excess[j] = Math::excess(row[j], excess[j]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; ++i) {
      const Operand scalar = a[i * a_row];
#pragma GCC unroll 16
      for (int j = 0; j < VECTORS; ++j) acc[i][j] = Math::step(scalar, row[j], acc[i][j]);
    }
    a += tile.a_k;
  }
  if constexpr (Math::EXCEEDS) {
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; ++i)
#pragma GCC unroll 16
      for (int j = 0; j < VECTORS; ++j) acc[i][j] -= excess[j];
  }

  if constexpr (Math::ROUNDS) {
    if (tile.round) {
      auto* out = static_cast<typename Math::Rounded*>(tile.out);
#pragma GCC unroll 16
      for (int i = 0; i < ROWS; ++i, out += tile.out_row)
#pragma GCC unroll 16
        for (int j = 0; j < VECTORS; ++j)
          Math::round(out + j * LANES<T>, acc[i][j] + T{0},
                      j < VECTORS - 1 ? LANES<T> : static_cast<int64_t>(tile.last));
      return;
    }
  }
  T* out = static_cast<T*>(tile.out);
  if (tile.add) {
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; ++i, out += tile.out_row) {
      Vector<T> total[VECTORS];
      load_row<T, VECTORS>(total, out, last_of_c);
#pragma GCC unroll 16
      for (int j = 0; j < VECTORS; ++j) total[j] += acc[i][j];
      store_row<T, VECTORS>(out, total, last_of_c);
    }
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; ++i, out += tile.out_row) {
#pragma GCC unroll 16
      for (int j = 0; j < VECTORS; ++j) acc[i][j] += T{0};  // -0 becomes +0
      store_row<T, VECTORS>(out, acc[i], last_of_c);
    }
  }
}

template <typename Math, int ROWS, int VECTORS>
void multiply_tile(const Tile& tile) {
  using Operand = typename Math::Operand;
  using Sum = typename Math::Sum;
  using WholeRows = RowReader<Operand, VECTORS, Whole<Operand>>;
  using PartRows = RowReader<Operand, VECTORS, Part<Operand>>;
  const Part<Sum> part(tile.last);
  if (tile.last == LANES<Sum>) {
    multiply<Math, ROWS, VECTORS>(tile, WholeRows(tile, {}), Whole<Sum>{});
  } else if (tile.padded) {
    multiply<Math, ROWS, VECTORS>(tile, WholeRows(tile, {}), part);
  } else {
    multiply<Math, ROWS, VECTORS>(tile, PartRows(tile, Part<Operand>(tile.last)), part);
  }
}

}  // namespace
}  // namespace tiled::cpu
