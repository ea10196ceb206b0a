// The activations where C has 16 bits: of fewer digits than activation.h's, and less than half as
// long (gelu has 21 instructions of a GPU, silu 19, gelu_tanh 21). Sums, products, fused
// multiply-adds and integer operations, one text for host and device.
//
// x sigmoid(w(x)), w odd, and x Phi(x) are both max(x, 0) - R(|x|), R(t) being t times the sigmoid
// of -w(t), or Phi(-t). R is a product, of which nothing cancels:
//
//     gelu       R = t 2^h           h = log2(erfc(t / sqrt 2) / 2) = -1 + t q(t), q a polynomial
//     silu       R = t p / (1 + p)   p = 2^(-t / ln 2), 1 / (1 + p) a polynomial of p
//     gelu_tanh  likewise            p = 2^(-w / ln 2), w = 2 sqrt(2 / pi) (t + 0.044715 t^3)
//
// 2^f is 2^n, n the integer nearest to f, times a polynomial of f - n. The polynomials are fits of
// the least largest relative error in R, by weighted least squares whose weights grow with the
// error (Lawson 1961), on 300 and, of q, 500 Chebyshev nodes. Coefficients were rounded one by one
// from the highest on, the lower ones fitted anew each time. q may be off eight times as much
// beyond t = 5.65, where R is below 2^-25.
//
// Relative errors of R from there on, and below 2^-25 where they are others:
//
//     2^f                         2^-18.5
//     1 / (1 + p)                 2^-16.8
//     t q, fit and Horner's steps 2^-16.5, 2^-13.5
//     w / ln 2                    2^-18.2, 2^-15.8   three roundings of 27, or 142
//     products                    2^-22
//
// They add up to 2^-16 at most, or 2^-13 where the result is below 2^-25 in size. There no fp16
// differs from zero, so that a result rounded to its type, fp16 or bf16, is within 1/2 + 1/32 of an
// ulp (cpp_tests/test_elementary.cpp). Where R is less than half of bf16's smallest number, at -Inf
// too, it is some number that rounds to zero. NaN stays, and so does the sign of zero.
#pragma once

#include "core/elementary.h"

namespace tiled {
namespace elementary {

TILED_HOST_DEVICE float brief_relu(float x) { return relu(x); }

// |x|, or `end` where that is less, or x NaN.
TILED_HOST_DEVICE float size_up_to(float x, float end) {
  const float size = magnitude(x);
  return size < end ? size : end;
}

// 2^(LIFT + a b) for a b from -126 - LIFT to 0: so that it is no subnormal.
template <int LIFT>
TILED_HOST_DEVICE float lifted_power(float a, float b) {
  constexpr float ROUND = Constants<float>::ROUND, UP = static_cast<float>(int64_t{1} << LIFT);
  const float shifted = fused(a, b, ROUND);
  const float r = fused(a, b, -(shifted - ROUND));
  const float power = polynomial(r, 0x1.ffffe8p-1f * UP, 0x1.62e0dcp-1f * UP, 0x1.ec06dap-3f * UP,
                                 0x1.ca143ep-5f * UP, 0x1.399818p-7f * UP);
  // ROUND's own bits are shifted out.
  return bits_as<float>(bits_as<uint32_t>(power) + (bits_as<uint32_t>(shifted) << 23));
}

TILED_HOST_DEVICE float brief_gelu(float x) {
  const float t = size_up_to(x, 13.6f);
  const float q = polynomial(t, -0x1.26bac2p+0f, -0x1.d52ed2p-2f, -0x1.bdeb9ap-5f, 0x1.22352cp-7f,
                             -0x1.16aa72p-10f, 0x1.75af06p-14f, -0x1.46e996p-18f, 0x1.4c99c4p-23f,
                             -0x1.28eba2p-29f);
  return fused(t * lifted_power<16>(t, q), -0x1p-17f, relu(x));
}

// max(x, 0) - t p / (1 + p) for p = 2^(t slope)
TILED_HOST_DEVICE float brief_times_sigmoid(float x, float t, float slope) {
  const float p = lifted_power<16>(t, slope);
  // 2^-16 / (1 + 2^-16 p)
  const float inverse =
      polynomial(p, 0x1.fffedap-17f, -0x1.ff8e66p-33f, 0x1.f8874ap-49f, -0x1.ce5d1cp-65f,
                 0x1.55e548p-81f, -0x1.4a6c04p-98f, 0x1.25b558p-116f);
  return fused(-(t * p), inverse, relu(x));
}

TILED_HOST_DEVICE float brief_silu(float x) {
  return brief_times_sigmoid(x, size_up_to(x, 98), -0x1.715476p+0f);
}

TILED_HOST_DEVICE float brief_gelu_tanh(float x) {
  const float t = size_up_to(x, 10.4f);
  return brief_times_sigmoid(x, t, fused(t * t, -0x1.a5a7dp-4f, -0x1.26aec2p+1f));
}

}  // namespace elementary
}  // namespace tiled
