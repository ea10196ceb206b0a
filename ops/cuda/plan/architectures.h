// Which devices a list of architectures serves, as CMake was given it: "7.5 8.0 9.0+PTX". Pure.
#pragma once

#include <string_view>

namespace tiled {

// Whether code for one entry runs on a device of this compute capability (90 for 9.0): machine code
// on the same major version and no older minor one, PTX on everything that is not older.
constexpr bool entry_runs_on(std::string_view entry, int capability) {
  int number = 0;
  for (const char c : entry) {
    if (c >= '0' && c <= '9') number = 10 * number + (c - '0');
    if (c == '+') return capability >= number;
  }
  return capability / 10 == number / 10 && capability >= number;
}

// The same of a list with spaces between its entries.
constexpr bool runs_on(std::string_view architectures, int capability) {
  while (!architectures.empty()) {
    const size_t end = architectures.find(' ');
    if (entry_runs_on(architectures.substr(0, end), capability)) return true;
    architectures = end == std::string_view::npos ? "" : architectures.substr(end + 1);
  }
  return false;
}

}  // namespace tiled
