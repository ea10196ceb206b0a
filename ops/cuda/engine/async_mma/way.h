// How async_mma runs a problem.
#pragma once

#include <cstdint>

namespace tiled {

// How an operand comes from global to shared memory.
enum class ReadBy : int8_t {
  Sixteen,   // cp.async of 16 bytes (on 7.5, which has none, by loads to registers),
  Eight,     // of 8,
  Four,      // and of 4
  Turned,    // through registers, four bytes along m or n by four of k, turned there
  Shifted,   // through registers, two aligned 16 bytes shifted together
  Elements,  // through registers, one by one: no stride is 1
};

struct AsyncMmaWay {
  int8_t tile;          // of AllAsyncMmaTiles
  bool swap_ab;         // C's transpose is computed: B's for A and A's for B
  ReadBy a, b;          // of the operands as the kernel has them
  bool copy_a, copy_b;  // which of these are copied first, to where 16 bytes can be read
  bool split_k;
};

}  // namespace tiled
