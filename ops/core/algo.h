// The rungs of the ladder by name: what `algo=` may say. Kernels do not include this: a further
// rung leaves those of the others as they are compiled.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tiled {

enum class Algo : int8_t {
#define RUNG(algo, name) algo,
#include "core/ladder.inc"
};

constexpr Algo ALL_ALGOS[] = {
#define RUNG(algo, name) Algo::algo,
#include "core/ladder.inc"
};

constexpr std::string_view name_of(Algo algo) {
  constexpr std::string_view NAMES[] = {
#define RUNG(algo, name) #name,
#include "core/ladder.inc"
  };
  return NAMES[static_cast<int>(algo)];
}

constexpr bool on_tensor_cores(Algo algo) {
  constexpr bool ARE_ON_TENSOR_CORES[] = {
#define CPU_RUNG(algo, name) false,
#define GPU_RUNG(algo, name) false,
#define ASYNC_RUNG(algo, name) true,
#define HOPPER_RUNG(algo, name) true,
#include "core/ladder.inc"
  };
  return ARE_ON_TENSOR_CORES[static_cast<int>(algo)];
}

constexpr std::optional<Algo> parse_algo(std::string_view name) {
  for (Algo algo : ALL_ALGOS)
    if (name_of(algo) == name) return algo;
  return std::nullopt;
}

}  // namespace tiled
