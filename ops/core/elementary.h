// exp, tanh and erf, and what epilogues' activations are made of (activation.h), written out so
// that host and device compute the same bits: sums, products, quotients and explicit fused
// multiply-adds, each rounded as IEEE says, without branches and tables. No product is added but by
// a fused multiply-add, so that there is nothing for a compiler to contract.
//
// exp(x) = 2^n exp(r), n the integer nearest to x / ln 2, and r = x - n ln 2 with ln 2 in two parts
// (Cody and Waite 1980), summed up as 1 + (r + r^2 q(r)) (Tang, ACM TOMS 15(2), 1989). erf's tail
// exp(t^2 / 2) erfc(t / sqrt 2) is a polynomial of t / (t + c) over t + c (Shepherd and
// Laframboise, Math. Comp. 36, 1981). The polynomials are fits of the least relative error by
// Remez' exchange. What the first roundings lose is known exactly, by fused multiply-adds, and is
// added where it is still seen: to quotients, to a polynomial's first term.
//
// No error is above 2 ulp of the result (cpp_tests/test_elementary.cpp). The largest that were
// found, of every float from 0.01 in size to where a function ends, and of 15 million doubles: exp
// 1.02 and 1.06, tanh 1.42 and 1.42, erf 1.07 and 1.16, silu 1.70 and 1.67, gelu_tanh 1.92
// and 1.94, gelu 1.84 and 1.93.
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

namespace tiled {

// a * b + c by one rounding.
TILED_HOST_DEVICE float fused(float a, float b, float c) { return fmaf(a, b, c); }
TILED_HOST_DEVICE double fused(double a, double b, double c) { return fma(a, b, c); }

namespace elementary {

TILED_HOST_DEVICE float magnitude(float x) { return fabsf(x); }
TILED_HOST_DEVICE double magnitude(double x) { return fabs(x); }
TILED_HOST_DEVICE float with_sign(float x, float sign) { return copysignf(x, sign); }
TILED_HOST_DEVICE double with_sign(double x, double sign) { return copysign(x, sign); }

// max(x, 0); NaN stays, and so does -0.
template <typename Real>
TILED_HOST_DEVICE Real relu(Real x) {
  return x < 0 ? Real(0) : x;
}

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

// The constants that differ between the types.
template <typename Real>
struct Constants;

template <>
struct Constants<float> {
  using Bits = uint32_t;
  using Integer = int32_t;
  static constexpr int FRACTION = 23, BIAS = 127;
  static constexpr float ROUND = 0x1.8p23f;  // added, it leaves the nearest integer in the low bits
  static constexpr float LN2_HIGH = 0x1.62e4p-1f, LN2_LOW = 0x1.7f7d1cp-20f;
  // From there on exp overflows, or is less than half the smallest subnormal; tanh and erf are 1.
  static constexpr float EXP_END = 89, EXP_START = -104, TANH_END = 10, ERF_END = 4;
  // The few digits of the tail's c, and its polynomial's first term.
  static constexpr float TAIL_SHIFT = 2.5;
  // Whether the tail's factors are so steep that roundings inside of them are seen.
  static constexpr bool STEEP = false;
  static constexpr float TAIL = 0x1.69cee6p-1f, TAIL_REST = 0x1.b2240cp-26f;
  static constexpr float ERF_SLOPE = 0x1.20dd76p+0f, ERF_SLOPE_REST = -0x1.fab75ep-25f;
};

template <>
struct Constants<double> {
  using Bits = uint64_t;
  using Integer = int64_t;
  static constexpr int FRACTION = 52, BIAS = 1023;
  static constexpr double ROUND = 0x1.8p52;
  static constexpr double LN2_HIGH = 0x1.62e42fefap-1, LN2_LOW = 0x1.cf79abc9e3b3ap-40;
  static constexpr double EXP_END = 710, EXP_START = -746, TANH_END = 20, ERF_END = 6;
  static constexpr double TAIL_SHIFT = 5;
  static constexpr bool STEEP = true;
  static constexpr double TAIL = 0x1.89d3abe1f95aep-1, TAIL_REST = 0;
  static constexpr double ERF_SLOPE = 0x1.20dd750429b6dp+0, ERF_SLOPE_REST = 0x1.1aadc89b32667p-56;
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

// (P(u) - TAIL) / v for P = (t + TAIL_SHIFT) exp(t^2 / 2) erfc(t / sqrt 2) / 2, v = 2 u - 1 and
// u = t / (t + TAIL_SHIFT), t from 0 to 14.5; of double to 39
TILED_HOST_DEVICE float tail_slope(float v) {
  return polynomial(v, -0x1.bc19c2p-2f, 0x1.0e4f2ep-3f, 0x1.2ea37ap-7f, -0x1.0c7806p-6f,
                    -0x1.a38922p-10f, 0x1.4ac1c4p-9f, 0x1.665cd8p-11f, -0x1.465162p-12f,
                    -0x1.49605cp-13f);
}
TILED_HOST_DEVICE double tail_slope(double v) {
  return polynomial(
      v, -0x1.54ad03f27ca18p-1, 0x1.fb31653876f89p-2, -0x1.410ed5f87594bp-2, 0x1.51f6329f01bafp-3,
      -0x1.1b1c254ca4002p-4, 0x1.54b4d4f48a4e6p-6, -0x1.88590e984d5d8p-9, -0x1.a2503777d30b2p-11,
      0x1.1daf1adebd6a6p-11, -0x1.f2149318b4dd9p-15, -0x1.a17012ee00482p-15, 0x1.17df150e2ce12p-16,
      0x1.0b14d9b016a88p-18, -0x1.73e0bbd88ef2cp-19, -0x1.6748d16d6827ep-22, 0x1.d46d5ecc569d6p-22,
      0x1.5976cd261983p-25, -0x1.2d096d2eaf035p-24, -0x1.26a03eefae76p-27, 0x1.7199ef0237617p-27,
      0x1.30df7741419dap-29, -0x1.3b6c1d015ec16p-30, -0x1.9e90e520d67fdp-32);
}

// (erf(x) / x - ERF_SLOPE) / x^2 of s = x^2, for |x| <= 0.9
TILED_HOST_DEVICE float erf_bend(float s) {
  return polynomial(s, -0x1.812744p-2f, 0x1.ce2e5p-4f, -0x1.b8149cp-6f, 0x1.55041cp-8f,
                    -0x1.ac6452p-11f, 0x1.64246p-14f);
}
TILED_HOST_DEVICE double erf_bend(double s) {
  return polynomial(s, -0x1.812746b0379e7p-2, 0x1.ce2f21a042c23p-4, -0x1.b82ce3128a2c2p-6,
                    0x1.565bcd0eab97fp-8, -0x1.c02db40d166a9p-11, 0x1.f9a3287d028d9p-14,
                    -0x1.f4d277584dd6cp-17, 0x1.b9e7bf7067c60p-20, -0x1.5f7384cba38f8p-23,
                    0x1.fbd72c721b803p-27, -0x1.47793b6168588p-30, 0x1.34ce3b7883704p-34);
}

// (1 + rest + low) * 2^exponent, rest between -0.3 and 0.42, low below its last digit: only those
// who are steep need it
template <typename Real>
struct Exponential {
  Real rest, low;
  typename Constants<Real>::Integer exponent;
};

// exp(x + tail), tail far below x and x within a few powers of two of Real's range. NaN stays.
template <typename Real>
TILED_HOST_DEVICE Exponential<Real> exponential(Real x, Real tail) {
  using C = Constants<Real>;
  const Real shifted = fused(x, Real(1.4426950408889634), C::ROUND);
  const Real n = shifted - C::ROUND;
  const Real near = fused(n, -C::LN2_HIGH, x), first = fused(n, -C::LN2_LOW, near);
  const Real r = first + tail, square = r * exp_rest(r), rest = fused(square, r, r);
  const Real low =
      fused(square, r, r - rest) + ((tail - (r - first)) + fused(n, -C::LN2_LOW, near - first));
  const typename C::Bits exponent =
      bits_as<typename C::Bits>(shifted) - bits_as<typename C::Bits>(C::ROUND);
  return {rest, low, static_cast<typename C::Integer>(exponent)};
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

// x * 2^n + c for n from -160 to 0 and |x| below 2^60, likewise.
TILED_HOST_DEVICE float scaled_down(float x, int32_t n, float c) {
  return fused(x * power_of_two<float>(n + 64), 0x1p-64f, c);
}
TILED_HOST_DEVICE double scaled_down(double x, int64_t n, double c) {
  return scaled_by_two(x, n, c);
}

// 1 / d to its last digit or the one before, for d from 2^-100 to 2^100. A quotient of floats is a
// branch on a GPU, which keeps neighbouring elements from being computed side by side. This is a
// guess off by 5 % at most, for the bits of d count its logarithm, and two steps of Newton's
// iteration, the first of third order.
TILED_HOST_DEVICE float inverse_of(float d) {
  const float guess = bits_as<float>(0x7ef311c3 - bits_as<uint32_t>(d));
  const float e = fused(-d, guess, 1.0f);
  const float next = fused(guess, fused(e, e, e), guess);
  return fused(next, fused(-d, next, 1.0f), next);
}
TILED_HOST_DEVICE double inverse_of(double d) { return 1 / d; }

// A number in two parts, the second below the first's last digit.
template <typename Real>
struct Pair {
  Real high, low;
};

// 1 / (d + low)
template <typename Real>
TILED_HOST_DEVICE Pair<Real> reciprocal(Real d, Real low) {
  const Real inverse = inverse_of(d);
  return {inverse, fused(-inverse, low, fused(-inverse, d, Real(1))) * inverse};
}

// t exp(t^2 / 2) erfc(t / sqrt 2) / 2 = u P(u)
template <typename Real>
TILED_HOST_DEVICE Pair<Real> tail(Real t) {
  using C = Constants<Real>;
  const Real d = t + C::TAIL_SHIFT, d_low = t - (d - C::TAIL_SHIFT);
  const Real inverse = inverse_of(d), u = t * inverse;
  const Real u_low = fused(-u, d_low, fused(-u, d, t)) * inverse;
  const Real left = 1 - u, v = fused(2, u, -1), slope = tail_slope(v);
  const Real p = fused(v, slope, C::TAIL);
  Real p_low = fused(v, slope, C::TAIL - p) + C::TAIL_REST;
  // The derivative of P(v) is about (1 - v) slope.
  if constexpr (C::STEEP) p_low = fused(fused(2, u, -1 - v), slope * (left + left), p_low);
  const Real y = u * p;
  // About (1 - u)^2 of a relative error of u is one of u P(u).
  return {y, fused(u_low * (left * left), p, fused(u, p_low, fused(u, p, -y)))};
}

template <typename Real>
TILED_HOST_DEVICE Real exp(Real x) {
  using C = Constants<Real>;
  const Real y = x > C::EXP_END ? C::EXP_END : x < C::EXP_START ? C::EXP_START : x;
  const auto e = exponential(y, Real(0));
  return scaled_by_two(1 + e.rest, e.exponent, Real(-0.0));
}

// -m / (2 + m) for m = exp(-2 |x|) - 1
template <typename Real>
TILED_HOST_DEVICE Real tanh(Real x) {
  using C = Constants<Real>;
  const Real size = magnitude(x);
  const auto e = exponential(Real(-2) * (size > C::TANH_END ? C::TANH_END : size), Real(0));
  const Real power = power_of_two<Real>(e.exponent);
  const Real m = fused(power, e.rest, power - 1);
  const Real m_low = fused(power, e.low, fused(power, e.rest, (power - 1) - m));
  const Real d = m + 2, d_low = (m - (d - 2)) + m_low;
  const Real inverse = 1 / d, q = -m * inverse;
  const Real left = fused(-q, d_low, fused(-q, d, -m) - m_low);
  return with_sign(fused(left, inverse, q), x);
}

// x (ERF_SLOPE + x^2 ...), or 1 - erfc(|x|) where erfc is less than a quarter
template <typename Real>
TILED_HOST_DEVICE Real erf(Real x) {
  using C = Constants<Real>;
  const Real s = x * x;
  const Real near = fused(x, C::ERF_SLOPE, x * fused(s, erf_bend(s), C::ERF_SLOPE_REST));
  const Real size = magnitude(x), y = size > C::ERF_END ? C::ERF_END : size;
  const Real square = y * -y;
  const auto e = exponential(square, fused(y, -y, -square));
  const Real t = y * Real(1.4142135623730951), u = t / (t + C::TAIL_SHIFT);
  const Real v = fused(2, u, -1);
  const Real p = fused(v, tail_slope(v), C::TAIL) / (t + C::TAIL_SHIFT);
  const Real far = fused(Real(-2) * power_of_two<Real>(e.exponent), fused(p, e.rest, p), Real(1));
  return with_sign(size < Real(0.9) ? near : far, x);
}

}  // namespace elementary
}  // namespace tiled
