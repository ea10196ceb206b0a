// A place in a ring of stages, as a producer and its consumers walk it.
#pragma once

#include <cstdint>

namespace tiled {

// The stage, and the parity of its barriers' phase, which changes with every lap.
template <int STAGES>
struct Ring {
  uint32_t stage = 0, parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
  __device__ __forceinline__ void skip(uint32_t steps) {
    const uint32_t position = stage + steps;
    parity ^= position / STAGES & 1;
    stage = position % STAGES;
  }
};

}  // namespace tiled
