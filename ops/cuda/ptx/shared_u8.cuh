// Single bytes of shared memory by their address in the shared window (PTX ISA, "st").
#pragma once

#include <cstdint>

namespace tiled::ptx {

// The low 8 bits.
__device__ __forceinline__ void store_shared_u8(uint32_t address, uint32_t v) {
  asm volatile("st.shared.u8 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}

}  // namespace tiled::ptx
