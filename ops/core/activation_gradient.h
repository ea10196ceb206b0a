// The derivatives of the activations, and a gradient on its way back through one: one text for host
// and device, by elementary.h's rules. Where the gradient has 16 bits, brief_slope.h's take their
// place.
//
// With t = |x|, e = exp(-t) and p = 1 / (1 + e), so that sigmoid(x) is p or, of negative x, e p:
//
//     silu'       x >= 0: p + e (t p^2)            x < 0: e (p - t p^2)
//     gelu_tanh'  the same with e = exp(-|w|) and |x w'| for t, x sigmoid(w) being gelu_tanh
//     gelu'       x >= 0: 1 - e y                  x < 0: e y
//                 e = exp(-t^2 / 2), y = exp(t^2 / 2) erfc(t / sqrt 2) / 2 - t / sqrt(2 pi)
//
// Nothing small is left of larger terms but where the derivative itself crosses zero; there the
// error is one of the two terms that cancel. So it is counted in ulp of S, the largest of the
// derivative and its two terms. What it can be, to first order, in units of u = 2^-24 (float) or
// 2^-53 (double) times the value; an ulp of S is more than u S:
//
//     e           1.2  two roundings of r below 1/2, together 1/2; the polynomial's and its fit's
//                      (0.07, of double 0.12) 0.6
//     1 / d       1.3  of every float by inverse_of(), which test_elementary.cpp goes through
//     p           3.3  1 / d, and d = 1 + e off by 2 at most where e is below 2^-22, else by less
//     q, silu     0    for t |w'|: q is |x|
//     q, gelu_t.  4    a square, two constants, a fused multiply-add, a product
//
//     x >= 0, p + q e p^2: the second is at most 0.23 of the sum. It has q, two of p, e and three
//         products: 3.3 + (q + 3.3 + 4.2) 0.23 and 1 for the sum, at most 7
//     x < 0, e (p - q p^2), r = q p: of p, where r < 1, |1 - 2 r| 3.3 + (q + 1) r + 3.2 (1 - r),
//         which is largest at an end, 6.5 or 4.3 + q; of r p, where r > 1, 2 * 3.3 + q + 1 + 3.2 at
//         most, 10.8 + q
//     gelu, R = exp(t^2 / 2) erfc(t / sqrt 2) / 2: 1 / d and d 2.3, for R falls by no more than
//         1 / d grows; the polynomial, its fit (1.22, of double 0.55) and the product 4.7: 7.
//         x < 0, e (R - line): 7 R + line + 3.2 |R - line| is at most 10.2 of the larger;
//         x >= 0 adds 1 for the difference from 1
//
// and half an ulp more where the result is subnormal. So the bounds are 12 ulp for silu and gelu,
// 16 for gelu_tanh (python_tests/test_activation_backward.py holds them). Of every float from 0.005
// in size to where a derivative ends the largest are 4.7, 4.4 and 5.9.
#pragma once

#include "core/activation.h"
#include "core/brief_slope.h"

namespace tiled {
namespace elementary {

// The derivative of x sigmoid(w) for w + tail = -|w| and q = |x w'|.
template <typename Real>
TILED_HOST_DEVICE Real sigmoid_slope(Real x, Real w, Real tail, Real q) {
  using C = Constants<Real>;
  const auto e = exponential(w, tail);
  const Real power = power_of_two<Real>(e.exponent < 1 - C::BIAS ? 1 - C::BIAS : e.exponent);
  const Real p = inverse_of(fused(power, e.rest, 1 + power));
  const Real qp = q * p, rising = qp * p, falling = fused(-qp, p, p);
  const Real times_e = x < 0 ? falling : rising;
  return scaled_down(fused(times_e, e.rest, times_e), e.exponent, x < 0 ? Real(0) : p);
}

template <typename Real>
TILED_HOST_DEVICE Real silu_slope(Real x) {
  const Real t = at_most(magnitude(x), SlopeEnd<Real>::SILU);
  return sigmoid_slope(x, -t, Real(0), t);
}

template <typename Real>
TILED_HOST_DEVICE Real gelu_tanh_slope(Real x) {
  using A = Activations<Real>;
  const Real t = -at_most(magnitude(x), SlopeEnd<Real>::GELU_TANH);
  // -|w| in two parts, as gelu_tanh() has it
  const Real square = t * t, square_rest = fused(t, t, -square);
  const Real p = fused(square, A::CUBIC, A::LINEAR);
  const Real p_rest = fused(square, A::CUBIC, A::LINEAR - p) +
                      fused(square, A::CUBIC_REST, fused(square_rest, A::CUBIC, A::LINEAR_REST));
  const Real w = t * p;
  const Real tail = fused(t, p_rest, fused(t, p, -w));
  return sigmoid_slope(x, w, tail, -t * fused(3 * A::CUBIC, square, A::LINEAR + A::LINEAR_REST));
}

template <typename Real>
TILED_HOST_DEVICE Real gelu_slope(Real x) {
  using C = Constants<Real>;
  const Real t = at_most(magnitude(x), SlopeEnd<Real>::GELU);
  const Real half = Real(-0.5) * t, square = half * t;
  const auto e = exponential(square, fused(half, t, -square));
  const Real inverse = inverse_of(t + C::TAIL_SHIFT);
  // (t + TAIL_SHIFT) exp(t^2 / 2) erfc(t / sqrt 2) / 2, as tail() has it
  const Real v = fused(2, t * inverse, -1), shape = fused(v, tail_slope(v), C::TAIL);
  const Real y = fused(-t, Real(0.3989422804014327), shape * inverse);
  const Real grown = fused(y, e.rest, y);
  return scaled_down(x < 0 ? grown : -grown, e.exponent, x < 0 ? Real(0) : Real(1));
}

}  // namespace elementary

// A gradient on its way back through an activation: the two numbers whose product goes on. That
// product as it is, before it is rounded, is what a sum of such gradients takes up, by one fused
// multiply-add. relu passes a gradient on or has +0 for it, which no slope does to infinity; so it
// changes the gradient, and multiplies by 1 as no activation does.
template <typename Real>
struct PassedBack {
  Real gradient, slope;
};

// `x` is the pre-activation, or relu's result. OF_16_BITS: whether the gradient's
// elements are fp16 or bf16 in memory, here widened; the slopes need fewer digits then. Here alone
// the long form or the brief one is chosen.
template <bool OF_16_BITS, typename Real>
TILED_HOST_DEVICE PassedBack<Real> passed_back(Activation activation, Real gradient, Real x) {
  switch (activation) {
    case Activation::None: break;
    case Activation::Relu: return {x <= 0 ? Real(0) : gradient, 1};
#define SLOPE(activation, name)                               \
  case Activation::activation:                                \
    if constexpr (OF_16_BITS)                                 \
      return {gradient, elementary::brief_##name##_slope(x)}; \
    else                                                      \
      return {gradient, elementary::name##_slope(x)};
      SLOPE(Gelu, gelu)
      SLOPE(GeluTanh, gelu_tanh)
      SLOPE(Silu, silu)
#undef SLOPE
  }
  return {gradient, 1};
}

}  // namespace tiled
