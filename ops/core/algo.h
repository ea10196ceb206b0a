// The rungs of the ladder by name: what `algo=` may say. Kernels do not include this: a further
// rung leaves those of the others as they are compiled.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tiled {

enum class Algo : int8_t {
#define RUNG(algo, name, is_lesson) algo,
#include "core/ladder.inc"
};

constexpr Algo ALL_ALGOS[] = {
#define RUNG(algo, name, is_lesson) Algo::algo,
#include "core/ladder.inc"
};

struct AlgoInfo {
  std::string_view name;
  bool on_tensor_cores, is_lesson;
};
constexpr AlgoInfo ALGO_INFOS[] = {
#define CPU_RUNG(algo, name, is_lesson) {#name, false, is_lesson},
#define GPU_RUNG(algo, name, is_lesson) {#name, false, is_lesson},
#define ASYNC_RUNG(algo, name, is_lesson) {#name, true, is_lesson},
#define HOPPER_RUNG(algo, name, is_lesson) {#name, true, is_lesson},
#include "core/ladder.inc"
};
constexpr const AlgoInfo& info_of(Algo algo) { return ALGO_INFOS[static_cast<int>(algo)]; }
constexpr std::string_view name_of(Algo algo) { return info_of(algo).name; }
constexpr bool on_tensor_cores(Algo algo) { return info_of(algo).on_tensor_cores; }
constexpr bool is_lesson(Algo algo) { return info_of(algo).is_lesson; }

constexpr std::optional<Algo> parse_algo(std::string_view name) {
  for (Algo algo : ALL_ALGOS)
    if (name_of(algo) == name) return algo;
  return std::nullopt;
}

}  // namespace tiled
