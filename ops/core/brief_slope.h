// The derivatives of the activations where the gradient has 16 bits: of fewer digits than
// activation_gradient.h's, by a few more operations than brief_activation.h takes (some 25 to 30).
// Sums, products, fused multiply-adds and integer operations, one text for host and device.
//
// f(x) - f(-x) = x for all of them, so that f'(x) is D = f'(-t) of negative x = -t, and 1 - D of
// others. D is a product, or a difference of two:
//
//     gelu       D = (z - t) 2^h      z the only zero of D, 0.7518, and h - h(0) = t q(t), q a
//                                     polynomial: what is left of D has no zero
//     silu       D = p i - t p i^2    p = 2^(-t / ln 2), i = 1 / (1 + p) a polynomial of p
//     gelu_tanh  D = p i - q p i^2    p = 2^(-w / ln 2), w = 2 sqrt(2 / pi) (t + 0.044715 t^3),
//                                     q = t w'(t)
//
// Powers of two and the fits are made as in brief_activation.h, those of i for their largest
// relative error. q of gelu may be off sixteen times as much where D's terms are below 2^-25.
//
// Errors in units of S, the largest of the derivative and the two terms of D, and where S is below
// 2^-25, where they are others. p's count once there, i's at most twice:
//
//     2^f                            2^-18.5
//     i                              2^-19.3 twice
//     h - h(0), fit; Horner's steps  2^-17.1, 2^-13.0; 2^-18, 2^-13.5
//     w / ln 2                       2^-18.2, 2^-15.8   three roundings of 27, or 163
//     products                       2^-22
//
// They add up to 2^-16 S, or 2^-12 S where S is below 2^-25, and half of the smallest subnormal.
// python_tests/test_activation_backward.py holds every value of fp16 and bf16 to that; the largest
// errors are 2^-16.5 and 2^-12.2 (gelu), 2^-17.3 and 2^-16.7 (gelu_tanh), 2^-17.5 twice (silu). NaN
// stays.
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
  const float q = polynomial(t, -0x1.883212p-2f, -0x1.1f8f0ep-1f, -0x1.b5f9c4p-5f, 0x1.ca6c3cp-7f,
                             -0x1.6a7c56p-9f, 0x1.a38f68p-12f, -0x1.58d89ep-15f, 0x1.842952p-19f,
                             -0x1.1aba88p-23f, 0x1.de531cp-29f, -0x1.63e0d8p-35f);
  // 2^-40 (z - t) 2^h(0)
  const float from_zero = fused(t, -0x1.54851ap-41f, 0x1p-41f);
  return slope_of(x, lifted_power<SLOPE_LIFT>(t, q), from_zero);
}

// The derivative of x sigmoid(w) for t = |x|, p = 2^(t exponent) and q = |x w'|.
TILED_HOST_DEVICE float brief_sigmoid_slope(float x, float t, float exponent, float q) {
  constexpr float UP = 0x1p40f, DOWN = 0x1p-40f;
  const float lifted = lifted_power<SLOPE_LIFT>(t, exponent);
  // 2^-40 / (1 + p)
  const float inverse = polynomial(lifted * DOWN, 0x1.ffffcep-41f, -0x1.ffe69cp-41f,
                                   0x1.fdd57cp-41f, -0x1.ed4c7cp-41f, 0x1.ac56d6p-41f,
                                   -0x1.21c244p-41f, 0x1.f7edacp-43f, -0x1.932488p-45f);
  return slope_of(x, lifted, inverse * fused(-UP * q, inverse, 1.0f));
}

TILED_HOST_DEVICE float brief_silu_slope(float x) {
  const float t = at_most(magnitude(x), SlopeEnd<float>::SILU);
  return brief_sigmoid_slope(x, t, -0x1.715476p+0f, t);
}

TILED_HOST_DEVICE float brief_gelu_tanh_slope(float x) {
  const float t = at_most(magnitude(x), SlopeEnd<float>::GELU_TANH), square = t * t;
  return brief_sigmoid_slope(x, t, fused(square, -0x1.a5a7dp-4f, -0x1.26aec2p+1f),
                             t * fused(square, 0x1.b6676cp-3f, 0x1.988454p+0f));
}

}  // namespace elementary
}  // namespace tiled
