// mma.sync of fp16 with K = 8, which compute capability 7.5 has: D[16][8] = A[16][8] * B[8][8] + D.
// Register map: mma.cuh's a[0], a[1] and b[0] alone; with a[2], a[3] and b[1] it is the next 8 of
// k.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace tiled::ptx {

__device__ __forceinline__ void mma_k8(__half, float (&d)[4], uint32_t a0, uint32_t a1,
                                       uint32_t b) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
      " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(b));
}

}  // namespace tiled::ptx
