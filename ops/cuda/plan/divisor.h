// Division by a number that the host knows. Host and device.
#pragma once

#include <cstdint>

namespace tiled {

// Division of numbers below 2^31 by one that the host knows, as a multiplication (Granlund and
// Montgomery, "Division by Invariant Integers using Multiplication", 1994). A division proper
// would stand before a block's first load.
struct Divisor {
  uint32_t value, multiplier, shift;

  static constexpr Divisor of(uint32_t value) {
    uint32_t shift = 0;
    while ((uint64_t{1} << shift) < value) ++shift;
    const uint64_t power = uint64_t{1} << (31 + shift);
    return {value, static_cast<uint32_t>((power + value - 1) / value), shift};
  }
  constexpr uint32_t quotient(uint32_t n) const {
    return static_cast<uint32_t>((uint64_t{n} * multiplier) >> (31 + shift));
  }
};

}  // namespace tiled
