// tiled in place of torch's own kernels: the products of a program that was written without it.
// tiled_mm.h has the words for users, and what else there is.
#pragma once

#include <optional>
#include <string_view>

namespace tiled {

// "cpu", "cuda" or nothing for both. Each enable needs a disable; the first of a device registers
// the kernels.
void enable_override_of(std::optional<std::string_view> device);
void disable_override_of(std::optional<std::string_view> device);

}  // namespace tiled
