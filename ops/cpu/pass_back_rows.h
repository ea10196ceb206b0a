// The arithmetic of a gradient pass on widened rows, the compiler's to vectorise:
// core/activation_gradient.h leaves it nothing to round in another way.
#pragma once

#include "core/activation_gradient.h"
#include "cpu/kernels.h"

namespace tiled::cpu {
namespace {

template <typename Real, bool OF_16_BITS, Activation ACTIVATION>
void pass_back_by(const PassBack& tile) {
  Real* __restrict sums = static_cast<Real*>(tile.sums);
  for (int64_t i = 0; i < tile.rows; ++i) {
    Real* __restrict gradient = static_cast<Real*>(tile.gradient) + i * tile.row;
    const Real* __restrict pre_activation =
        static_cast<const Real*>(tile.pre_activation) + i * tile.row;
    for (int64_t j = 0; j < tile.cols; ++j) {
      const Real x = ACTIVATION == Activation::None ? Real(0) : pre_activation[j];
      const PassedBack<Real> passed = passed_back<OF_16_BITS>(ACTIVATION, gradient[j], x);
      gradient[j] = passed.gradient * passed.slope;
      sums[j] = fused(passed.gradient, passed.slope, sums[j]);
    }
  }
}

template <typename Real, bool OF_16_BITS>
void pass_back(const PassBack& tile) {
  switch (tile.activation) {
    case Activation::None: return pass_back_by<Real, OF_16_BITS, Activation::None>(tile);
#define ACTIVATION(activation, name) \
  case Activation::activation: return pass_back_by<Real, OF_16_BITS, Activation::activation>(tile);
#include "core/activations.inc"
  }
}

}  // namespace
}  // namespace tiled::cpu
