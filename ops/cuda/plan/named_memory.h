// How much memory a named device has. Apart from device.h: of a running device its owner asks the
// runtime what is free, so that a DeviceInfo need not say it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tiled {

// Bytes, as the data sheets have them. Empty where named_device is.
std::optional<int64_t> named_memory(std::string_view name);

}  // namespace tiled
