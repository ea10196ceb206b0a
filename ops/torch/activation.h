// The names of activations (core/epilogue.h) in arguments.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>

#include "core/epilogue.h"

namespace tiled {

inline Activation parse_activation(std::optional<std::string_view> name) {
  if (!name || *name == "none") return Activation::None;
  if (*name == "relu") return Activation::Relu;
  if (*name == "gelu") return Activation::Gelu;
  if (*name == "gelu_tanh") return Activation::GeluTanh;
  if (*name == "silu") return Activation::Silu;
  TORCH_CHECK(false, "tiled_mm: unknown activation '", std::string(*name),
              "'; expected one of: none, relu, gelu, gelu_tanh, silu");
}

// The activation of this name, of a product of this dtype.
inline Activation check_activation(std::optional<std::string_view> name, at::ScalarType dtype) {
  const Activation activation = parse_activation(name);
  TORCH_CHECK(activation == Activation::None || at::isFloatingType(dtype), "tiled_mm: activation '",
              std::string(name.value_or("")), "' is for real floating-point inputs, got ", dtype);
  return activation;
}

// A name that lives forever.
constexpr std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::None: return "none";
    case Activation::Relu: return "relu";
    case Activation::Gelu: return "gelu";
    case Activation::GeluTanh: return "gelu_tanh";
    case Activation::Silu: return "silu";
  }
  return "?";
}

}  // namespace tiled
