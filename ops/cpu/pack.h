// Operands copied, converted and transposed for the micro-kernel, a vector at a time.
//
// Complex numbers become real ones here, and no kernel knows them. A's real parts and its imaginary
// ones are a matrix of reals each, [m][k], and a row of B is a row of [k][2n] in two ways,
//
//      re0  im0  re1  im1 ...     (b as it stands)
//     -im0  re0 -im1  re1 ...     (i * b)
//
// The sum of the two real products, Ar b + Ai (i * b), is C as it stands in memory, its parts side
// by side: each part of an element is the sum of two chains, one of each product.
#pragma once

#include "cpu/convert.h"
#include "cpu/kernels.h"
#include "cpu/transpose.h"

namespace tiled::cpu {
namespace {

// A vector of the first `count` elements at p, then zeros.
template <typename Kind>
inline Vector<typename Kind::Sum> widen_some(const void* p, int64_t count) {
  typename Kind::Element elements[LANES<typename Kind::Sum>] = {};
  memcpy(elements, p, count * sizeof(typename Kind::Element));
  return Kind::widen_vector(elements);
}

// Rows of neighbours. Rows may be far apart, where no hardware looks for the next one.
template <typename Kind>
inline void pack_rows(const Pack& pack) {
  using Sum = typename Kind::Sum;
  constexpr int64_t L = LANES<Sum>;
  constexpr int64_t AHEAD = 4;  // rows
  for (int64_t i = 0; i < pack.rows; ++i) {
    const auto* src = static_cast<const typename Kind::Element*>(pack.src) + i * pack.row;
    Sum* dst = static_cast<Sum*>(pack.dst) + i * pack.dst_row;
    int64_t j = 0;
    for (; j + L <= pack.cols; j += L) {
      __builtin_prefetch(src + j + AHEAD * pack.row);
      store<Sum>(dst + j, Kind::widen_vector(src + j));
    }
    if (j < pack.cols)
      Part<Sum>(pack.cols - j).store(dst + j, widen_some<Kind>(src + j, pack.cols - j));
  }
}

// Columns of neighbours: blocks of L x L elements, transposed in registers.
template <typename Kind>
inline void pack_columns(const Pack& pack) {
  using Sum = typename Kind::Sum;
  constexpr int64_t L = LANES<Sum>;
  constexpr int64_t AHEAD = 512;  // bytes
  for (int64_t j = 0; j < pack.cols; j += L) {
    const int64_t cols = pack.cols - j < L ? pack.cols - j : L;
    const Part<Sum> part(cols);
    for (int64_t i = 0; i < pack.rows; i += L) {
      const int64_t rows = pack.rows - i < L ? pack.rows - i : L;
      const auto* src = static_cast<const typename Kind::Element*>(pack.src) + i + j * pack.col;
      Sum* dst = static_cast<Sum*>(pack.dst) + i * pack.dst_row + j;
      Vector<Sum> block[L] = {};
      if (rows == L && cols == L) {
#pragma GCC unroll 32
        for (int64_t c = 0; c < L; ++c) {
          __builtin_prefetch(reinterpret_cast<const char*>(src + c * pack.col) + AHEAD);
          block[c] = Kind::widen_vector(src + c * pack.col);
        }
        transpose<Sum>(block);
#pragma GCC unroll 32
        for (int64_t r = 0; r < L; ++r) store<Sum>(dst + r * pack.dst_row, block[r]);
      } else {
        for (int64_t c = 0; c < cols; ++c) block[c] = widen_some<Kind>(src + c * pack.col, rows);
        transpose<Sum>(block);
        for (int64_t r = 0; r < rows; ++r) part.store(dst + r * pack.dst_row, block[r]);
      }
    }
  }
}

template <typename Kind>
void pack_real(const Pack& pack) {
  using Sum = typename Kind::Sum;
  if (pack.col == 1) {
    pack_rows<Kind>(pack);
  } else if (pack.row == 1) {
    pack_columns<Kind>(pack);
  } else {
    const auto* src = static_cast<const typename Kind::Element*>(pack.src);
    Sum* dst = static_cast<Sum*>(pack.dst);
    for (int64_t i = 0; i < pack.rows; ++i)
      for (int64_t j = 0; j < pack.cols; ++j)
        dst[i * pack.dst_row + j] = Kind::widen(src[i * pack.row + j * pack.col]);
  }
  if (pack.padded == pack.cols) return;
  for (int64_t i = 0; i < pack.rows; ++i)
    memset(static_cast<Sum*>(pack.dst) + i * pack.dst_row + pack.cols, 0,
           (pack.padded - pack.cols) * sizeof(Sum));
}

// Elements moved whole, to [rows][2 cols] reals.
template <typename T>
void move_complex(const Pack& pack) {
  const auto* src = static_cast<const Complex<T>*>(pack.src);
  for (int64_t i = 0; i < pack.rows; ++i) {
    T* dst = static_cast<T*>(pack.dst) + i * pack.dst_row;
    for (int64_t j = 0; j < pack.cols; ++j)
      memcpy(dst + 2 * j, &src[i * pack.row + j * pack.col], sizeof(Complex<T>));
  }
}

// -im re of each pair re im.
template <typename T>
inline __attribute__((always_inline)) Vector<T> times_i(Vector<T> v) {
  Vector<T> turned;
#pragma GCC unroll 16
  for (int64_t i = 0; i < LANES<T>; i += 2) {
    turned[i] = -v[i + 1];
    turned[i + 1] = v[i];
  }
  return turned;
}

// Complex B, or i * B: [rows][2 cols] reals, `padded` counting reals.
template <typename T, bool TIMES_I>
void pack_complex_b(const Pack& pack) {
  const auto* src = static_cast<const Complex<T>*>(pack.src);
  for (int64_t i = 0; i < pack.rows; ++i) {
    T* dst = static_cast<T*>(pack.dst) + i * pack.dst_row;
    int64_t j = 0;
    if (pack.col == 1)
      for (; 2 * j + LANES<T> <= 2 * pack.cols; j += LANES<T> / 2) {
        const Vector<T> v = load<T>(src + i * pack.row + j);
        store<T>(dst + 2 * j, TIMES_I ? times_i<T>(v) : v);
      }
    for (; j < pack.cols; ++j) {
      const Complex<T> x = src[i * pack.row + j * pack.col];
      dst[2 * j] = TIMES_I ? -x.im : x.re;
      dst[2 * j + 1] = TIMES_I ? x.re : x.im;
    }
    for (j = 2 * pack.cols; j < pack.padded; ++j) dst[j] = 0;
  }
}

template <typename Kind>
void store_real(const Store& out) {
  using Sum = typename Kind::Sum;
  constexpr int64_t L = LANES<Sum>;
  for (int64_t i = 0; i < out.rows; ++i) {
    const Sum* src = static_cast<const Sum*>(out.src) + i * out.src_row;
    auto* dst = static_cast<typename Kind::Element*>(out.dst) + i * out.row;
    int64_t j = 0;
    if (out.col == 1)
      for (; j + L <= out.cols; j += L) Kind::narrow_vector(dst + j, load<Sum>(src + j));
    for (; j < out.cols; ++j) dst[j * out.col] = Kind::narrow(src[j]);
  }
}

template <typename T>
void store_complex(const Store& out) {
  for (int64_t i = 0; i < out.rows; ++i) {
    const T* src = static_cast<const T*>(out.src) + i * out.src_row;
    auto* dst = static_cast<Complex<T>*>(out.dst) + i * out.row;
    for (int64_t j = 0; j < out.cols; ++j)
      memcpy(&dst[j * out.col], src + 2 * j, sizeof(Complex<T>));
  }
}

}  // namespace
}  // namespace tiled::cpu
