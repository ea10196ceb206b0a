// The activations of epilogues, written out so that host and device compute the same bits:
// sums, products, quotients and explicit fused multiply-adds, each rounded as IEEE says, without
// branches and tables. No product is added but by a fused multiply-add, so that there is nothing
// for a compiler to contract.
//
// exp(x) = 2^n exp(r), n the integer nearest to x / ln 2, and r = x - n ln 2 with ln 2 in two parts
// (Cody and Waite 1980), summed up as 1 + (r + r^2 q(r)) (Tang, ACM TOMS 15(2), 1989). gelu's tail
// exp(t^2 / 2) erfc(t / sqrt 2) is a polynomial of t / (t + c) over t + c (Shepherd and
// Laframboise, Math. Comp. 36, 1981). The polynomials are fits of the least relative error by
// Remez' exchange.
//
// 1 + erf and 1 + tanh would lose small results to cancellation; so neither function occurs: gelu
// subtracts a tail from max(x, 0), and with (1 + tanh(w / 2)) / 2 = 1 / (1 + exp(-w)) the other two
// divide. At -Inf they have their limit, -0.
//
// Errors in ulp of the result, held by python_tests/test_epilogue.py: silu and gelu_tanh 3,
// gelu 4, of float and double.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define TILED_HOST_DEVICE __host__ __device__ __forceinline__
#else
// Never a function of its own: files for different instruction sets read this (kernels.h).
#define TILED_HOST_DEVICE static inline __attribute__((always_inline))
#endif

#include "core/epilogue.h"

namespace tiled {

// a * b + c by one rounding.
TILED_HOST_DEVICE float fused(float a, float b, float c) { return fmaf(a, b, c); }
TILED_HOST_DEVICE double fused(double a, double b, double c) { return fma(a, b, c); }

namespace elementary {

TILED_HOST_DEVICE float magnitude(float x) { return fabsf(x); }
TILED_HOST_DEVICE double magnitude(double x) { return fabs(x); }

template <typename To, typename From>
TILED_HOST_DEVICE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

// c0 + c1 x + c2 x^2 + ...
template <typename Real>
TILED_HOST_DEVICE Real polynomial(Real, Real c) {
  return c;
}
template <typename Real, typename... Rest>
TILED_HOST_DEVICE Real polynomial(Real x, Real c, Rest... rest) {
  return fused(polynomial(x, rest...), x, c);
}

// What differs between the types.
template <typename Real>
struct Constants;

template <>
struct Constants<float> {
  using Bits = uint32_t;
  using Integer = int32_t;
  static constexpr int FRACTION = 23, BIAS = 127;
  static constexpr float ROUND = 0x1.8p23f;  // added, it leaves the nearest integer in the low bits
  static constexpr float LN2_HIGH = 0x1.62e4p-1f, LN2_LOW = 0x1.7f7d1cp-20f;
  // From there on an activation is less than half the smallest subnormal.
  static constexpr float GELU_END = 14.5f, SILU_END = 110, GELU_TANH_END = 11;
  // 2 sqrt(2 / pi), its first bits and what they lack, and 0.044715 times that
  static constexpr float LINEAR = 0x1.98848p+0f, LINEAR_REST = -0x1.6615e4p-19f;
  static constexpr float CUBIC = 0x1.2444f2p-4f, CUBIC_REST = 0x1.49b16ap-29f;
  static constexpr float TAIL_SHIFT = 2.5;
};

template <>
struct Constants<double> {
  using Bits = uint64_t;
  using Integer = int64_t;
  static constexpr int FRACTION = 52, BIAS = 1023;
  static constexpr double ROUND = 0x1.8p52;
  static constexpr double LN2_HIGH = 0x1.62e42fefap-1, LN2_LOW = 0x1.cf79abc9e3b3ap-40;
  static constexpr double GELU_END = 39, SILU_END = 760, GELU_TANH_END = 22;
  static constexpr double LINEAR = 0x1.9884533d4368p+0, LINEAR_REST = -0x1.7b9781a61d7fap-47;
  static constexpr double CUBIC = 0x1.2444f2a4d8b4bp-4, CUBIC_REST = -0x1.6c843a29d1c7p-61;
  static constexpr double TAIL_SHIFT = 5;
};

// (exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2
TILED_HOST_DEVICE float exp_rest(float r) {
  return polynomial(r, 0x1.fffffcp-2f, 0x1.55548ap-3f, 0x1.555916p-5f, 0x1.123fc6p-7f,
                    0x1.6a1a7p-10f);
}
TILED_HOST_DEVICE double exp_rest(double r) {
  return polynomial(r, 0x1.000000000000bp-1, 0x1.55555555554efp-3, 0x1.555555555026fp-5,
                    0x1.1111111129db5p-7, 0x1.6c16c185972f1p-10, 0x1.a01a0121ed206p-13,
                    0x1.a01995f7900c1p-16, 0x1.71df31449c956p-19, 0x1.28b16138404fp-22,
                    0x1.ad77512f61771p-26);
}

// (t + TAIL_SHIFT) exp(t^2 / 2) erfc(t / sqrt 2) / 2 for u = t / (t + TAIL_SHIFT) and t from 0 to
// GELU_END; of double in u - (1 - u), which spares it digits
TILED_HOST_DEVICE float tail_shape(float u) {
  return polynomial(u, 0x1.4p+0f, -0x1.3e4f0ap+0f, 0x1.5b68a8p-3f, 0x1.2aa2c6p-2f, 0x1.d413bp-5f,
                    -0x1.390892p-3f, 0x1.25755ep-3f, -0x1.4666dap-2f, 0x1.218a5p-2f,
                    -0x1.49ce1cp-4f);
}
TILED_HOST_DEVICE double tail_shape(double u) {
  return polynomial(
      fused(2, u, -1), 0x1.89d3abe1f95aep-1, -0x1.54ad03f27ca18p-1, 0x1.fb31653876f89p-2,
      -0x1.410ed5f87594bp-2, 0x1.51f6329f01bafp-3, -0x1.1b1c254ca4002p-4, 0x1.54b4d4f48a4e6p-6,
      -0x1.88590e984d5d8p-9, -0x1.a2503777d30b2p-11, 0x1.1daf1adebd6a6p-11, -0x1.f2149318b4dd9p-15,
      -0x1.a17012ee00482p-15, 0x1.17df150e2ce12p-16, 0x1.0b14d9b016a88p-18, -0x1.73e0bbd88ef2cp-19,
      -0x1.6748d16d6827ep-22, 0x1.d46d5ecc569d6p-22, 0x1.5976cd261983p-25, -0x1.2d096d2eaf035p-24,
      -0x1.26a03eefae76p-27, 0x1.7199ef0237617p-27, 0x1.30df7741419dap-29, -0x1.3b6c1d015ec16p-30,
      -0x1.9e90e520d67fdp-32);
}

// (1 + rest) * 2^exponent, rest between -0.3 and 0.42
template <typename Real>
struct Exponential {
  Real rest;
  typename Constants<Real>::Integer exponent;
};

// exp(x + tail), tail far below x and x within a few powers of two of Real's range. NaN stays.
template <typename Real>
TILED_HOST_DEVICE Exponential<Real> exponential(Real x, Real tail) {
  using C = Constants<Real>;
  const Real shifted = fused(x, Real(1.4426950408889634), C::ROUND);
  const Real n = shifted - C::ROUND;
  const Real r = fused(n, -C::LN2_LOW, fused(n, -C::LN2_HIGH, x)) + tail;
  const typename C::Bits exponent =
      bits_as<typename C::Bits>(shifted) - bits_as<typename C::Bits>(C::ROUND);
  return {fused(r * exp_rest(r), r, r), static_cast<typename C::Integer>(exponent)};
}

// 2^n of a normal number
template <typename Real>
TILED_HOST_DEVICE Real power_of_two(typename Constants<Real>::Integer n) {
  using C = Constants<Real>;
  return bits_as<Real>(static_cast<typename C::Bits>(n + C::BIAS) << C::FRACTION);
}

// x * 2^n + c. In two steps, of which the first is exact: rounded once where it is subnormal.
template <typename Real>
TILED_HOST_DEVICE Real scaled_by_two(Real x, typename Constants<Real>::Integer n, Real c) {
  const auto half = n >> 1;
  return fused(x * power_of_two<Real>(half), power_of_two<Real>(n - half), c);
}

template <typename Real>
TILED_HOST_DEVICE Real relu(Real x) {
  return x < 0 ? Real(0) : x;
}

// max(x, 0) - t exp(-t^2 / 2) (exp(t^2 / 2) erfc(t / sqrt 2) / 2) for t = |x|
template <typename Real>
TILED_HOST_DEVICE Real gelu(Real x) {
  using C = Constants<Real>;
  const Real size = magnitude(x), t = size < C::GELU_END ? size : C::GELU_END;
  const Real half = Real(-0.5) * t, square = half * t;
  const auto e = exponential(square, fused(half, t, -square));
  const Real u = t / (t + C::TAIL_SHIFT), y = u * tail_shape(u);
  return scaled_by_two(-fused(y, e.rest, y), e.exponent, relu(x));
}

// x / (1 + exp(|w|)) where x is negative, else x / (1 + exp(-|w|)); w + tail = -|w|
template <typename Real>
TILED_HOST_DEVICE Real times_sigmoid(Real x, Real w, Real tail) {
  using C = Constants<Real>;
  const auto e = exponential(w, tail);
  const Real power = power_of_two<Real>(e.exponent < 1 - C::BIAS ? 1 - C::BIAS : e.exponent);
  const Real y = (x < 0 ? fused(x, e.rest, x) : x) / fused(power, e.rest, 1 + power);
  return scaled_by_two(y, x < 0 ? e.exponent : 0, Real(-0.0));
}

template <typename Real>
TILED_HOST_DEVICE Real silu(Real x) {
  using C = Constants<Real>;
  const Real y = x < -C::SILU_END ? -C::SILU_END : x;
  return times_sigmoid(y, y > C::SILU_END ? -C::SILU_END : -magnitude(y), Real(0));
}

// x (1 + tanh(w / 2)) / 2 = x / (1 + exp(-w)), w = x (LINEAR + CUBIC x^2), in two parts since exp
// multiplies a relative error of w by |w|.
template <typename Real>
TILED_HOST_DEVICE Real gelu_tanh(Real x) {
  using C = Constants<Real>;
  const Real y = x < -C::GELU_TANH_END ? -C::GELU_TANH_END : x;
  const Real t = y > C::GELU_TANH_END ? -C::GELU_TANH_END : -magnitude(y);
  const Real square = t * t, square_rest = fused(t, t, -square);
  const Real p = fused(square, C::CUBIC, C::LINEAR);
  // p - LINEAR is exact
  const Real p_rest = fused(square, C::CUBIC, C::LINEAR - p) +
                      fused(square, C::CUBIC_REST, fused(square_rest, C::CUBIC, C::LINEAR_REST));
  const Real w = t * p;
  return times_sigmoid(y, w, fused(t, p_rest, fused(t, p, -w)));
}

}  // namespace elementary

template <typename Real>
TILED_HOST_DEVICE Real activated(Activation activation, Real x) {
  switch (activation) {
    case Activation::None: return x;
    case Activation::Relu: return elementary::relu(x);
    case Activation::Gelu: return elementary::gelu(x);
    case Activation::GeluTanh: return elementary::gelu_tanh(x);
    case Activation::Silu: return elementary::silu(x);
  }
  return x;
}

}  // namespace tiled
