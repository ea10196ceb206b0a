// The arithmetic of an epilogue (epilogue.h) for one element, the same text for host and device.
// Who calls has loaded the bias and the input, widened to the sum's type, and stores what comes
// back.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/activation.h"
#include "core/epilogue.h"

namespace tiled {

// f * x + c. Number is real, an integer that wraps, or a complex number as a struct of re and im. A
// part of a complex factor that is 0 takes no product with x: infinity times it would be NaN, and
// so a factor of 1 changes nothing.
template <typename Number>
TILED_HOST_DEVICE Number scaled(const Factor& f, Number x, Number c) {
  if constexpr (std::is_floating_point_v<Number>) {
    return fused(static_cast<Number>(f.real), x, c);
  } else if constexpr (std::is_integral_v<Number>) {
    // The low bits do not depend on the sign, nor on what a narrower number was widened by.
    return static_cast<Number>(static_cast<uint64_t>(f.integer) * static_cast<uint64_t>(x) +
                               static_cast<uint64_t>(c));
  } else {
    using Real = decltype(x.re);
    const Real re = static_cast<Real>(f.real), im = static_cast<Real>(f.imaginary);
    if (re != 0 || im == 0) c = {fused(re, x.re, c.re), fused(re, x.im, c.im)};
    if (im != 0) c = {fused(-im, x.im, c.re), fused(im, x.re, c.im)};
    return c;
  }
}

// beta * input + (alpha * sum + bias); `bias` is 0 where there is none.
template <typename Number>
TILED_HOST_DEVICE Number pre_activation_of(const Epilogue& e, Number sum, Number bias,
                                           Number input) {
  const Number so_far = scaled(e.alpha, sum, bias);
  return e.reads_input() ? scaled(e.beta, input, so_far) : so_far;
}

}  // namespace tiled
