// The arithmetic of an epilogue (epilogue.h) for one element, the same text for host and device.
// Who calls has loaded the bias and the input, widened to the sum's type, and stores what comes
// back.
#pragma once

#include <cmath>

#include "core/elementary.h"
#include "core/epilogue.h"

namespace tiled {

TILED_HOST_DEVICE float factor_of(const Factor& f, float) { return static_cast<float>(f.real); }
TILED_HOST_DEVICE double factor_of(const Factor& f, double) { return f.real; }

// a * b + c by one rounding.
TILED_HOST_DEVICE float fused(float a, float b, float c) { return fmaf(a, b, c); }
TILED_HOST_DEVICE double fused(double a, double b, double c) { return fma(a, b, c); }

// beta * input + (alpha * sum + bias); `bias` is 0 where there is none.
template <typename Real>
TILED_HOST_DEVICE Real before_activation(const Epilogue& e, Real sum, Real bias, Real input) {
  const Real scaled = fused(factor_of(e.alpha, sum), sum, bias);
  return e.reads_input() ? fused(factor_of(e.beta, sum), input, scaled) : scaled;
}

}  // namespace tiled
