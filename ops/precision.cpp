#include "precision.h"

#include <ATen/Context.h>

#include <array>
#include <atomic>

namespace tiled {
namespace {

constexpr std::array<std::string_view, 3> NAMES = {"ieee", "tf32", "fp16x3"};

Precision parse(std::string_view name) {
  for (size_t i = 0; i < NAMES.size(); ++i)
    if (NAMES[i] == name) return static_cast<Precision>(i);
  TORCH_CHECK(false, "tiled_mm: unknown precision '", std::string(name),
              "'; expected one of 'ieee', 'tf32', 'fp16x3'");
}

std::string_view name_of(Precision precision) { return NAMES[static_cast<size_t>(precision)]; }

constexpr int8_t FOLLOW_TORCH = -1;
std::atomic<int8_t> library_setting{FOLLOW_TORCH};

// Whether kernels for this precision of float32 exist on this device.
bool has_kernel(Precision precision, at::DeviceType) { return precision == Precision::Ieee; }

Precision ambient_precision() {
  const int8_t setting = library_setting.load(std::memory_order_relaxed);
  if (setting != FOLLOW_TORCH) return static_cast<Precision>(setting);
  // The legacy getters throw after a write through the new interface; this one never does.
  const auto torch_setting =
      at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL);
  return torch_setting == at::Float32Precision::TF32 ? Precision::Tf32 : Precision::Ieee;
}

Precision resolve_float32(at::DeviceType device, std::optional<std::string_view> asked) {
  if (asked) {
    const Precision precision = parse(*asked);
    if (device != at::kCUDA) return Precision::Ieee;  // never less exact than asked
    TORCH_CHECK_NOT_IMPLEMENTED(has_kernel(precision, device), "tiled_mm: precision='",
                                std::string(*asked), "' has no kernel for ", device,
                                " tensors; available: 'ieee'");
    return precision;
  }
  const Precision precision = ambient_precision();
  return has_kernel(precision, device) ? precision : Precision::Ieee;
}

}  // namespace

std::optional<std::string_view> resolve_precision(at::ScalarType dtype, at::DeviceType device,
                                                  std::optional<std::string_view> asked) {
  if (dtype == at::kFloat) return name_of(resolve_float32(device, asked));
  if (!asked) return std::nullopt;
  TORCH_CHECK(parse(*asked) == Precision::Ieee, "tiled_mm: precision='", std::string(*asked),
              "' is for float32 inputs, got ", dtype, "; expected 'ieee' or None");
  return name_of(Precision::Ieee);
}

Arithmetic resolve_arithmetic(at::ScalarType dtype, at::DeviceType device,
                              std::optional<std::string_view> asked) {
  resolve_precision(dtype, device, asked);
  return Arithmetic::Fma;
}

void set_float32_precision_name(std::optional<std::string_view> name) {
  library_setting.store(name ? static_cast<int8_t>(parse(*name)) : FOLLOW_TORCH,
                        std::memory_order_relaxed);
}

std::optional<std::string> get_float32_precision_name() {
  const int8_t setting = library_setting.load(std::memory_order_relaxed);
  if (setting == FOLLOW_TORCH) return std::nullopt;
  return std::string(name_of(static_cast<Precision>(setting)));
}

}  // namespace tiled
