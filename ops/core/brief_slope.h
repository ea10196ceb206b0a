// The derivatives of the activations where the gradient has 16 bits: of fewer digits than
// activation_gradient.h's, and shorter (gelu has 24 instructions of a GPU instead of 42, silu 23
// instead of 31, gelu_tanh 26 instead of 44). Sums, products, fused multiply-adds and integer
// operations, one text for host and device.
//
// f(x) - f(-x) = x for all of them, so that f'(x) + f'(-x) = 1: with t = |x| the derivative is
// D = f'(-t) of negative x, and 1 - D of others. D is a product, or a difference of two:
//
//     gelu       D = (z - t) 2^h      z the only zero of D, 0.7518, and h - h(0) = t q(t), q a
//                                     polynomial: what is left of D has no zero
//     silu       D = p i - t p i^2    p = 2^(-t / ln 2), i = 1 / (1 + p) a polynomial of p
//     gelu_tanh  D = p i - q p i^2    p = 2^(-w / ln 2), w = 2 sqrt(2 / pi) (t + 0.044715 t^3),
//                                     q = t w'(t)
//
// S is the largest in size of the derivative and the two terms that D is a difference of; of gelu
// erfc(t / sqrt 2) / 2 and t exp(-t^2 / 2) / sqrt(2 pi). Where D crosses zero S does not, and an
// error can only be counted beside S.
//
// Powers of two are made as in brief_activation.h, the fits too, but of the least largest error in
// units of S: so i may be off by 2^-15.5 of itself where its two places in D outweigh each other,
// and by 2^-18.3 where p is small and the second counts twice. q of gelu may be off five times as
// much where S is below 2^-25.
//
// Errors in units of S, and where S is below 2^-25, where they are others:
//
//                                 gelu                  silu, gelu_tanh
//     2^f                         2^-18.5               2^-18.5
//     fit of q, of i where w < 4  2^-17.1, 2^-14.67     2^-16.6
//                  i where w > 4                        2^-17.3
//     Horner's steps              2^-18.6, 2^-12.27     2^-22
//     w / ln 2, where w > 4                             2^-18.0, 2^-15.5   three roundings
//                     w < 4                             2^-20.4
//     products                    2^-22                 2^-21
//
// They add up to 2^-16 S at most, or 2^-12 S where S is below 2^-25, and there is the smallest
// subnormal beside, which covers what gelu's fit leaves out, t > 13.9, and the result's rounding.
// Horner's steps lose most there, for the terms of t q(t) are up to 2^15 and cancel.
// cpp_tests/test_elementary.cpp goes through every float from 2^-20 in size to where a derivative
// ends: the largest errors are 2^-16.42 and 2^-12.23 S (gelu), 2^-16.56 and 2^-15.92 (gelu_tanh),
// 2^-16.61 and 2^-16.87 (silu), subnormals' rounding not counted.
//
// So a gradient times a slope as large as S, rounded to its type, is within 1/2 + 1/32 of an ulp of
// fp16, 1/2 + 1/256 of bf16. Where S is below 2^-25 it is within 1/2 + 1/16 of bf16 (if the slope
// is no subnormal), and of fp16 within 1/2 + 1/32 as before if the gradient is 2^8 in size at most.
//
// NaN stays; at infinity the derivative is 1, at -infinity -0.
#pragma once

#include "core/brief_activation.h"

namespace tiled {
namespace elementary {

// From there on a derivative is 1, or less than half the smallest subnormal.
template <typename Real>
struct SlopeEnd;
template <>
struct SlopeEnd<float> {
  static constexpr float GELU = 15, SILU = 110, GELU_TANH = 11;
};
template <>
struct SlopeEnd<double> {
  static constexpr double GELU = 39, SILU = 760, GELU_TANH = 22;
};

// The smaller; NaN stays.
template <typename Real>
TILED_HOST_DEVICE Real at_most(Real x, Real end) {
  return x > end ? end : x;
}

constexpr int SLOPE_LIFT = 40;  // bits, so that no power down to a slope's end is subnormal

// D = a b of negative x, 1 - D of others.
TILED_HOST_DEVICE float slope_of(float x, float a, float b) {
  return fused(a, x < 0 ? b : -b, x < 0 ? -0.0f : 1.0f);
}

TILED_HOST_DEVICE float brief_gelu_slope(float x) {
  const float t = at_most(magnitude(x), SlopeEnd<float>::GELU);
  const float q = polynomial(t, -0x1.88326ap-2f, -0x1.1f8bd6p-1f, -0x1.b67368p-5f, 0x1.cc48fcp-7f,
                             -0x1.6e55c6p-9f, 0x1.acd69p-12f, -0x1.66795cp-15f, 0x1.9cc5dap-19f,
                             -0x1.3550dap-23f, 0x1.0e9d2ap-28f, -0x1.a2746ep-35f);
  // 2^-40 (z - t) 2^h(0)
  const float from_zero = fused(t, -0x1.54851ap-41f, 0x1p-41f);
  return slope_of(x, lifted_power<SLOPE_LIFT>(t, q), from_zero);
}

// The derivative of x sigmoid(w) for t = |x|, 2^(t exponent) = exp(-w(t)) and
// lifted_q = 2^40 t w'(t).
TILED_HOST_DEVICE float brief_sigmoid_slope(float x, float t, float exponent, float lifted_q) {
  const float lifted = lifted_power<SLOPE_LIFT>(t, exponent);
  // 2^-40 / (1 + p)
  const float inverse =
      polynomial(lifted * 0x1p-40f, 0x1.ffff98p-41f, -0x1.ffbda6p-41f, 0x1.fa8bc8p-41f,
                 -0x1.d64cep-41f, 0x1.63e21p-41f, -0x1.612248p-42f, 0x1.41768ap-44f);
  return slope_of(x, lifted, inverse * fused(-lifted_q, inverse, 1.0f));
}

TILED_HOST_DEVICE float brief_silu_slope(float x) {
  const float t = at_most(magnitude(x), SlopeEnd<float>::SILU);
  return brief_sigmoid_slope(x, t, -0x1.715476p+0f, 0x1p40f * t);
}

TILED_HOST_DEVICE float brief_gelu_tanh_slope(float x) {
  const float t = at_most(magnitude(x), SlopeEnd<float>::GELU_TANH), square = t * t;
  return brief_sigmoid_slope(x, t, fused(square, -0x1.a5a7dp-4f, -0x1.26aec2p+1f),
                             t * fused(square, 0x1.b6676cp+37f, 0x1.988454p+40f));
}

}  // namespace elementary
}  // namespace tiled
