// Global memory in software (block.h).
#pragma once

#include "software_gpu/block.h"

namespace tiled::ptx {

inline void store_global_v4(void* to, uint4 v) {
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0)
    throw std::runtime_error("st.global.v4: not a multiple of 16 bytes");
  std::memcpy(to, &v, 16);
}

}  // namespace tiled::ptx
