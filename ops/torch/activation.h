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
#define ACTIVATION(activation, text) \
  if (*name == #text) return Activation::activation;
#include "core/activations.inc"
  constexpr const char* NAMES = "none"
#define ACTIVATION(activation, text) ", " #text
#include "core/activations.inc"
      ;
  TORCH_CHECK(false, "tiled_mm: unknown activation '", std::string(*name),
              "'; expected one of: ", NAMES);
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
#define ACTIVATION(activation, text) \
  case Activation::activation: return #text;
#include "core/activations.inc"
  }
  return "?";
}

}  // namespace tiled
