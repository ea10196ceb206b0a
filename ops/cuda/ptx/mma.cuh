// mma.sync: a warp multiplies matrices that its lanes hold in registers (PTX ISA, "Warp Level
// Matrix Multiply-Accumulate Instructions"):  D[16][8] = A[16][K] * B[K][8] + D, K = 16 for fp16
// and bf16, 8 for tf32 and fp64, 32 for bytes.
//
// Register map, in 32-bit words of two 16-bit elements, four bytes or one of tf32, neighbours in k;
// lane l, g = l / 4, t = l % 4, A as [16][8 words], B as [8 columns][8 words]:
//     a[0] = A[g][t]   a[1] = A[g + 8][t]   a[2] = A[g][t + 4]   a[3] = A[g + 8][t + 4]
//     b[0] = B[g][t]   b[1] = B[g][t + 4]
//     d[0], d[1] = D[g][2 t + 0, 1]         d[2], d[3] = D[g + 8][2 t + 0, 1]
// fp64 in the same places, A as [16][8 elements], B as [8 columns][8 elements].
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace tiled::ptx {

// Code for anything older than compute capability 8.0 is never run, and empty.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define TILED_MMA(T, SHAPE)                                                           \
  __device__ __forceinline__ void mma(T, float (&d)[4], const uint32_t (&a)[4],       \
                                      const uint32_t (&b)[2]) {                       \
    asm volatile("mma.sync.aligned." SHAPE                                            \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"   \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
  }
TILED_MMA(__nv_bfloat16, "m16n8k16.row.col.f32.bf16.bf16.f32")
TILED_MMA(__half, "m16n8k16.row.col.f32.f16.f16.f32")
TILED_MMA(float, "m16n8k8.row.col.f32.tf32.tf32.f32")  // of each float the upper 19 bits
#undef TILED_MMA
// Sums of 32 bits wrap, so the low bits of the result are those of signed bytes too.
__device__ __forceinline__ void mma(unsigned char, uint32_t (&d)[4], const uint32_t (&a)[4],
                                    const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32"
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else
template <typename T, typename Sum>
__device__ __forceinline__ void mma(T, Sum (&)[4], const uint32_t (&)[4], const uint32_t (&)[2]) {}
#endif

// Eight fused multiply-adds of every element, k ascending, each rounded to nearest: the bits of
// fma() (Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ
// Computer Science 7:e330, 2021, for compute capability 8.0; 9.0 has shown no other bit here).
__device__ __forceinline__ void mma(double (&d)[4], const double (&a)[4], const double (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64"
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}

}  // namespace tiled::ptx
