// The activations of epilogues. 1 + erf and 1 + tanh would lose small results to cancellation; so
// neither function occurs: gelu subtracts a tail from max(x, 0), and with
// (1 + tanh(w / 2)) / 2 = 1 / (1 + exp(-w)) the other two divide. At -Inf they have their limit,
// -0. Errors as elementary.h says: 2 ulp of the result at most. Where C has 16 bits,
// brief_activation.h's take their place.
#pragma once

#include <type_traits>

#include "core/brief_activation.h"
#include "core/elementary.h"
#include "core/epilogue.h"

namespace tiled {
namespace elementary {

template <typename Real>
struct Activations;

template <>
struct Activations<float> {
  // From there on an activation is less than half the smallest subnormal.
  static constexpr float GELU_END = 14.5f, SILU_END = 110, GELU_TANH_END = 11;
  // 2 sqrt(2 / pi), its first bits and what they lack, and 0.044715 times that
  static constexpr float LINEAR = 0x1.98848p+0f, LINEAR_REST = -0x1.6615e4p-19f;
  static constexpr float CUBIC = 0x1.2444f2p-4f, CUBIC_REST = 0x1.49b16ap-29f;
};

template <>
struct Activations<double> {
  static constexpr double GELU_END = 39, SILU_END = 760, GELU_TANH_END = 22;
  static constexpr double LINEAR = 0x1.9884533d4368p+0, LINEAR_REST = -0x1.7b9781a61d7fap-47;
  static constexpr double CUBIC = 0x1.2444f2a4d8b4bp-4, CUBIC_REST = -0x1.6c843a29d1c7p-61;
};

// max(x, 0) - t exp(-t^2 / 2) (exp(t^2 / 2) erfc(t / sqrt 2) / 2) for t = |x|
template <typename Real>
TILED_HOST_DEVICE Real gelu(Real x) {
  using A = Activations<Real>;
  const Real size = magnitude(x), t = size < A::GELU_END ? size : A::GELU_END;
  const Real half = Real(-0.5) * t, square = half * t;
  const auto e = exponential(square, fused(half, t, -square));
  const Pair<Real> y = tail(t);
  const Real low = Constants<Real>::STEEP ? fused(y.high, e.low, y.low) : y.low;
  const Real rest = fused(y.high, e.rest, fused(low, e.rest, low));
  return scaled_down(-(y.high + rest), e.exponent, relu(x));
}

// x / (1 + exp(-|w|)), times exp(-|w|) where x is negative; w + w_low = -|w|
template <typename Real>
TILED_HOST_DEVICE Real times_sigmoid(Real x, Real w, Real w_low) {
  using C = Constants<Real>;
  const auto e = exponential(w, w_low);
  const Real power = power_of_two<Real>(e.exponent < 1 - C::BIAS ? 1 - C::BIAS : e.exponent);
  const Real d = fused(power, e.rest, 1 + power);
  const Pair<Real> i = reciprocal(d, fused(power, e.rest, (1 + power) - d));
  const Real rest = x < 0 ? e.rest : Real(0);
  const Real more = fused(i.high, rest, fused(i.low, rest, i.low));
  const Real factor = i.high + more, factor_low = more - (factor - i.high);
  // Where x is large the factor is 1, and infinity times what it lacks would be NaN.
  const Real y = fused(x, factor, (x < C::EXP_END ? x : C::EXP_END) * factor_low);
  const Real down = scaled_down(y, e.exponent, Real(-0.0));
  return x < 0 ? down : y;
}

template <typename Real>
TILED_HOST_DEVICE Real silu(Real x) {
  using A = Activations<Real>;
  const Real y = x < -A::SILU_END ? -A::SILU_END : x;
  return times_sigmoid(y, y > A::SILU_END ? -A::SILU_END : -magnitude(y), Real(0));
}

// x (1 + tanh(w / 2)) / 2 = x / (1 + exp(-w)), w = x (LINEAR + CUBIC x^2), in two parts since exp
// multiplies a relative error of w by |w|.
template <typename Real>
TILED_HOST_DEVICE Real gelu_tanh(Real x) {
  using A = Activations<Real>;
  const Real y = x < -A::GELU_TANH_END ? -A::GELU_TANH_END : x;
  const Real t = y > A::GELU_TANH_END ? -A::GELU_TANH_END : -magnitude(y);
  const Real square = t * t, square_rest = fused(t, t, -square);
  const Real p = fused(square, A::CUBIC, A::LINEAR);
  // p - LINEAR is exact
  const Real p_rest = fused(square, A::CUBIC, A::LINEAR - p) +
                      fused(square, A::CUBIC_REST, fused(square_rest, A::CUBIC, A::LINEAR_REST));
  const Real w = t * p;
  return times_sigmoid(y, w, fused(t, p_rest, fused(t, p, -w)));
}

}  // namespace elementary

// body(f) for the epilogue's activation f, a function of one number; nothing where there is none.
// Here alone it is chosen whether C's type wants the long form or the brief one.
template <typename Real, typename Body>
TILED_HOST_DEVICE void with_activation(const Epilogue& e, Body body) {
  switch (e.activation) {
    case Activation::None: return;
#define ACTIVATION(activation, name)                                                               \
  case Activation::activation:                                                                     \
    if constexpr (std::is_same_v<Real, float>)                                                     \
      if (e.rounds_to_16_bits()) return body([](float x) { return elementary::brief_##name(x); }); \
    return body([](Real x) { return elementary::name(x); });
#include "core/activations.inc"
  }
}

template <typename Real>
TILED_HOST_DEVICE Real activated(const Epilogue& e, Real x) {
  with_activation<Real>(e, [&](auto f) { x = f(x); });
  return x;
}

}  // namespace tiled
