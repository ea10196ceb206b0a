#include "torch/precision.h"

#include <ATen/Context.h>

#include <array>

#include "core/algo.h"
#include "core/text.h"
#include "cuda/plan/fp16x3.h"
#include "cuda/plan/kernels_of.h"
#include "torch/check.h"
#include "torch/setting.h"

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

int8_t parse_setting(std::optional<std::string_view> name) {
  return name ? static_cast<int8_t>(parse(*name)) : FOLLOW_TORCH;
}

Setting library_setting(FOLLOW_TORCH);

// Whether kernels of this arithmetic exist there, in this build.
bool has_kernel(Arithmetic arithmetic, DType dtype, Target target) {
  if (target.gpu == nullptr) return arithmetic == Arithmetic::Fma;
  return computes(kernels_of(*target.gpu), arithmetic, dtype);
}

// The arithmetic of float32.
Arithmetic arithmetic_of(Precision precision) {
  switch (precision) {
    case Precision::Ieee: break;
    case Precision::Tf32: return Arithmetic::Tf32;
    case Precision::Fp16x3: return Arithmetic::Fp16x3;
  }
  return Arithmetic::Fma;
}

bool has_kernel(Precision precision, Target target) {
  return has_kernel(arithmetic_of(precision), DType::Float32, target);
}

// Whether a setting gets it there. What is slower than 'ieee' is for calls that ask for it.
bool serves_a_setting(Precision precision, Target target) {
  return has_kernel(precision, target) &&
         (precision != Precision::Fp16x3 || fp16x3_pays(*target.gpu));
}

Precision ambient_precision() {
  const int8_t setting = library_setting.now();
  if (setting != FOLLOW_TORCH) return static_cast<Precision>(setting);
  // The legacy getters throw after a write through the new interface; this one never does.
  const auto torch_setting =
      at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL);
  return torch_setting == at::Float32Precision::TF32 ? Precision::Tf32 : Precision::Ieee;
}

// The refusal of a precision that no kernel has.
std::string no_kernel(std::string_view asked, Target target) {
  const int capability = target.gpu ? target.gpu->capability : 0;
  return "tiled_mm: precision='" + std::string(asked) +
         "' has no kernel for cuda tensors on compute capability " + capability_name(capability) +
         "; available: 'ieee'" +
         (target.gpu && leaves_out_hopper_kernels(*target.gpu) ? std::string("; ") + HOPPER_LEFT_OUT
                                                               : "");
}

Precision resolve_float32(Target target, std::optional<std::string_view> asked) {
  // Never less exact than asked; and torch's setting, which takes a while to read, changes nothing.
  if (target.type != at::kCUDA) {
    if (asked) parse(*asked);  // refuses what is no name
    return Precision::Ieee;
  }
  if (asked) {
    const Precision precision = parse(*asked);
    TORCH_CHECK_NOT_IMPLEMENTED(has_kernel(precision, target), no_kernel(*asked, target));
    return precision;
  }
  const Precision precision = ambient_precision();
  return serves_a_setting(precision, target) ? precision : Precision::Ieee;
}

// Whether a rung was asked for by name that knows no tensor cores.
bool runs_chains(std::optional<std::string_view> algo) {
  const std::optional<Algo> rung = algo ? parse_algo(*algo) : std::nullopt;
  return rung && !on_tensor_cores(*rung);
}

// None where a dtype has no choice and none was asked for.
std::optional<Precision> resolve(at::ScalarType dtype, Target target, const MmOptions& options) {
  const std::optional<std::string_view> asked = options.precision;
  if (dtype != at::kFloat) {
    if (!asked) return std::nullopt;
    TORCH_CHECK(parse(*asked) == Precision::Ieee, "tiled_mm: precision='", std::string(*asked),
                "' is for float32 inputs, got ", dtype, "; expected 'ieee' or None");
    return Precision::Ieee;
  }
  if (!asked && runs_chains(options.algo)) return Precision::Ieee;
  // A rung that has the precision's name computes in it. Where there is no kernel, the rung is
  // refused as every other that does not fit.
  if (!asked && options.algo == name_of(Precision::Fp16x3) && has_kernel(Precision::Fp16x3, target))
    return Precision::Fp16x3;
  return resolve_float32(target, asked);
}

}  // namespace

std::optional<std::string_view> resolve_precision(at::ScalarType dtype, Target target,
                                                  const MmOptions& options) {
  const std::optional<Precision> precision = resolve(dtype, target, options);
  return precision ? std::optional(name_of(*precision)) : std::nullopt;
}

Arithmetic resolve_arithmetic(at::ScalarType dtype, Target target, const MmOptions& options) {
  const std::optional<Precision> precision = resolve(dtype, target, options);
  if (dtype == at::kFloat) return arithmetic_of(*precision);
  if (!is_16_bit(dtype)) return Arithmetic::Fma;
  const bool asked = options.precision.has_value();
  if (target.type == at::kCPU) return asked ? Arithmetic::Fma : Arithmetic::Cpu16;
  const DType half = dtype == at::kHalf ? DType::Float16 : DType::BFloat16;
  return !asked && !runs_chains(options.algo) && has_kernel(Arithmetic::Tensor, half, target)
             ? Arithmetic::Tensor
             : Arithmetic::Fma;
}

void set_float32_precision(std::optional<std::string_view> name) {
  library_setting.set(parse_setting(name));
}

int64_t detail::enter_float32_precision(std::optional<std::string_view> name) {
  return library_setting.enter(parse_setting(name));
}

bool detail::leave_float32_precision(int64_t block) noexcept {
  return library_setting.leave(block);
}

std::optional<std::string> get_float32_precision() {
  const int8_t setting = library_setting.now();
  if (setting == FOLLOW_TORCH) return std::nullopt;
  return std::string(name_of(static_cast<Precision>(setting)));
}

}  // namespace tiled
