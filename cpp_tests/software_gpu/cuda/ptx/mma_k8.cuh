// mma.sync of 8 of k in software, by that of 16: what the others multiply is zero.
#pragma once

#include "cuda/ptx/mma.cuh"

namespace tiled::ptx {

inline void mma_k8(__half, float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b) {
  const uint32_t a[4] = {a0, a1, 0, 0}, of_b[2] = {b, 0};
  mma(__half(), d, a, of_b);
}

}  // namespace tiled::ptx
