// The product as its definition has it: for each row, for each column, a sum over k, cut where
// segments.h says. Slow, short, and the reference for everything else here: the blocked loops give
// the same bits.
#pragma once

#include "core/segments.h"
#include "cpu/convert.h"
#include "cpu/kernels.h"

namespace tiled::cpu {
namespace {

// One step of a chain. Integers are widened before they are multiplied: uint16_t would be promoted
// to a signed int, which may not overflow.
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
constexpr bool FUSED =
    true;  // said outright: left to itself, a compiler may vectorise the products
inline float multiply_add(float a, float b, float sum) { return __builtin_fmaf(a, b, sum); }
inline double multiply_add(double a, double b, double sum) { return __builtin_fma(a, b, sum); }
#else
constexpr bool FUSED = false;
inline float multiply_add(float a, float b, float sum) { return a * b + sum; }
inline double multiply_add(double a, double b, double sum) { return a * b + sum; }
#endif
inline uint64_t multiply_add(uint64_t a, uint64_t b, uint64_t sum) { return a * b + sum; }

template <typename T>
inline Complex<T> operator+(Complex<T> x, Complex<T> y) {
  return {x.re + y.re, x.im + y.im};
}

// The type in which the loops below add: what the blocked loops use, or wider for integers.
template <typename T>
struct NaiveSum {
  using Type = uint64_t;
};
template <>
struct NaiveSum<float> {
  using Type = float;
};
template <>
struct NaiveSum<double> {
  using Type = double;
};
template <typename T>
struct NaiveSum<Complex<T>> {
  using Type = Complex<T>;
};

// A segment's sum: one chain over k, whose elements of A and B are so far apart;
template <typename Kind, typename Sum = typename NaiveSum<typename Kind::Sum>::Type>
inline Sum segment_sum(Kind, const typename Kind::Element* a, int64_t a_stride,
                       const typename Kind::Element* b, int64_t b_stride, int64_t k) {
  Sum chain = {};
  for (int64_t p = 0; p < k; ++p)
    chain = multiply_add(static_cast<Sum>(Kind::widen(a[p * a_stride])),
                         static_cast<Sum>(Kind::widen(b[p * b_stride])), chain);
  return chain;
}

// of complex numbers four, one for each product of two parts: none has terms of two kinds, so that
// A and B may change places. (In two loops: of one, GCC 12 makes vectors that read past the end.)
template <typename T>
inline Complex<T> segment_sum(ComplexElement<T>, const Complex<T>* a, int64_t a_stride,
                              const Complex<T>* b, int64_t b_stride, int64_t k) {
  Complex<T> by_re = {}, by_im = {};
  for (int64_t p = 0; p < k; ++p) {
    const T x = a[p * a_stride].re;
    const Complex<T> y = b[p * b_stride];
    by_re = {multiply_add(x, y.re, by_re.re), multiply_add(x, y.im, by_re.im)};
  }
  for (int64_t p = 0; p < k; ++p) {
    const T x = a[p * a_stride].im;
    const Complex<T> y = b[p * b_stride];
    by_im = {multiply_add(x, y.re, by_im.re), multiply_add(x, y.im, by_im.im)};
  }
  return {by_re.re - by_im.im, by_re.im + by_im.re};
}

template <typename Kind>
void naive_rows(const NaiveProblem& problem, int64_t begin, int64_t end) {
  using Element = typename Kind::Element;
  using Sum = typename NaiveSum<typename Kind::Sum>::Type;
  const Strides a = problem.a_strides, b = problem.b_strides, c = problem.c_strides;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t entry = row / problem.m;
    const int64_t i = row % problem.m;
    const auto* a_i = static_cast<const Element*>(problem.a) + entry * a.batch + i * a.row;
    const auto* b_0 = static_cast<const Element*>(problem.b) + entry * b.batch;
    const int64_t c_i = entry * c.batch + i * c.row;
    for (int64_t j = 0; j < problem.n; ++j) {
      const Element* b_j = b_0 + j * b.col;
      Sum total = {};
      for (int64_t segment = 0; segment < segment_count(problem.k); ++segment) {
        const int64_t k = segment_begin(segment);
        total = total + segment_sum(Kind{}, a_i + k * a.col, a.col, b_j + k * b.row, b.row,
                                    segment_end(segment, problem.k) - k);
      }
      const auto sum = static_cast<typename Kind::Sum>(total);
      if constexpr (sizeof(Element) < sizeof sum) {
        if (problem.unrounded) {
          static_cast<typename Kind::Sum*>(problem.c)[c_i + j * c.col] = sum;
          continue;
        }
      }
      static_cast<Element*>(problem.c)[c_i + j * c.col] = Kind::narrow(sum);
    }
  }
}

}  // namespace
}  // namespace tiled::cpu
