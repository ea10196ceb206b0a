// movmatrix: a warp transposes an 8 x 8 matrix of 16-bit elements in its registers (PTX ISA,
// "movmatrix"), of which lane l has the elements (l / 4, 2 (l % 4) + 0, 1), as ldmatrix gives them.
#pragma once

#include <cstdint>

namespace tiled::ptx {

__device__ __forceinline__ uint32_t movmatrix_trans(uint32_t two) {
  uint32_t transposed;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(two));
  return transposed;
}

}  // namespace tiled::ptx
