// tiled in place of torch's own kernels: the products of a program that was written without it.
// tiled_mm.h has the words for users.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>

namespace tiled {

// "cpu", "cuda" or nothing for both. Each enable needs a disable; the first of a device registers
// the kernels.
void enable_override_of(std::optional<std::string_view> device);
void disable_override_of(std::optional<std::string_view> device);

// The same as disabling, without a complaint where it is not enabled.
void leave_override_of(std::optional<at::DeviceType> device) noexcept;

// {"addmm": {"tiled": 3, "torch": {"dtype": 1}}, ...} for the operators that were called since the
// last reset.
std::string override_counts_json(bool reset);

}  // namespace tiled
