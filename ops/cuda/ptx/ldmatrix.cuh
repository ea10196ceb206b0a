// ldmatrix: a warp loads 8 x 8 matrices of 16-bit elements from shared memory, rows of 16 bytes
// (PTX ISA, "ldmatrix"). Lane l gives the address of row l % 8 of matrix l / 8, and gets of matrix
// i, in values[i], the elements (l / 4, 2 (l % 4) + 0, 1): what mma.sync takes (mma.cuh). A row is
// as well four elements of 32 bits, of which the lane gets element l % 4.
#pragma once

#include <cstdint>

namespace tiled::ptx {

// `address` of the shared window, a multiple of 16 bytes.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&values)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(values[0]), "=r"(values[1]), "=r"(values[2]), "=r"(values[3])
               : "r"(address)
               : "memory");
}

// The same with each matrix transposed: the address is that of a column.
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&values)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(values[0]), "=r"(values[1]), "=r"(values[2]), "=r"(values[3])
               : "r"(address)
               : "memory");
}

}  // namespace tiled::ptx
