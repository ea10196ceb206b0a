// stmatrix: a warp stores four 8 x 8 matrices of 16-bit elements to shared memory (PTX ISA,
// "stmatrix"). Lane l holds of matrix i, in values[i], the elements (l / 4, 2 (l % 4) + 0, 1), and
// gives the address of the 16-byte row l % 8 of matrix l / 8.
#pragma once

#include <cstdint>

namespace tiled::ptx {

// `address` of the shared window, a multiple of 16 bytes.
__device__ __forceinline__ void stmatrix_x4(uint32_t address, const uint32_t (&values)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(values[0]), "r"(values[1]), "r"(values[2]), "r"(values[3])
               : "memory");
}

// The same with each matrix transposed: the address is that of a column.
__device__ __forceinline__ void stmatrix_x4_trans(uint32_t address, const uint32_t (&values)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "r"(values[0]), "r"(values[1]), "r"(values[2]), "r"(values[3])
      : "memory");
}

}  // namespace tiled::ptx
