// 16 bits of shared memory by their address in the shared window (PTX ISA, "ld", "st").
#pragma once

#include <cstdint>

namespace tiled::ptx {

// `address`: a multiple of 2.
__device__ __forceinline__ uint32_t load_shared_u16(uint32_t address) {
  uint16_t v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address) : "memory");
  return v;
}

__device__ __forceinline__ void store_shared_u16(uint32_t address, uint16_t v) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(v) : "memory");
}

}  // namespace tiled::ptx
