// The three forms of an operator, of one function that computes it: C; C and the pre-activation;
// and C into out=.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>
#include <utility>

namespace tiled {

// COMPUTE(pre_activation, out, arguments...) returns C. Where `pre_activation` is not null it is
// given the pre-activation, and where `out` is not null C is written there.
template <auto COMPUTE, typename Signature = decltype(COMPUTE)>
struct Forms;

template <auto COMPUTE, typename... Arguments>
struct Forms<COMPUTE, at::Tensor (*)(at::Tensor*, at::Tensor*, Arguments...)> {
  static at::Tensor product(Arguments... arguments) {
    return COMPUTE(nullptr, nullptr, arguments...);
  }
  static std::tuple<at::Tensor, at::Tensor> with_pre_activation(Arguments... arguments) {
    at::Tensor pre_activation;
    at::Tensor c = COMPUTE(&pre_activation, nullptr, arguments...);
    return {std::move(c), std::move(pre_activation)};
  }
  static void out(Arguments... arguments, at::Tensor& out) { COMPUTE(nullptr, &out, arguments...); }
};

}  // namespace tiled
