// wgmma: a warpgroup (four warps, 128 threads) multiplies matrices in shared memory (PTX ISA,
// "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions").
//
//     D[64][N] = A[64][K] * B[K][N] (+ D),   K = 16 for fp16 and bf16, 8 for tf32, 32 for fp8 and
//                                            bytes; D in fp32, of bytes in int32, which wraps
//
// Register map of D: thread t of the warpgroup, warp w = t / 32, lane l = t % 32, holds
//     d[4 j + 0], d[4 j + 1] = D[16 w + l / 4    ][8 j + 2 (l % 4) + 0, 1]
//     d[4 j + 2], d[4 j + 3] = D[16 w + l / 4 + 8][8 j + 2 (l % 4) + 0, 1]
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace tiled::ptx {

// fp32 numbers of which the tensor core reads the upper 19 bits.
struct Tf32 {
  float value;
};

// fp8 numbers, and what A and B are where they may differ.
struct E4m3 {
  uint8_t bits;
};
struct E5m2 {
  uint8_t bits;
};
template <typename A, typename B>
struct Fp8;

// Orders this warpgroup's accesses to D's registers before its next wgmma.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Until at most PENDING of the newest groups still run.
template <int PENDING>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// D's registers in the compiler's eyes. It takes what a wgmma writes as there from the moment that
// the wgmma is issued, and the wait names no register: nothing else would keep it from using an
// accumulator before the wait, while the tensor cores still write it, which is undefined (PTX ISA,
// "wgmma.mma_async" and "wgmma.wait_group"). Neither of these makes an instruction.

// Where D is declared, since the first wgmma of a chain does not read it but has it for an operand
// that is read and written: its registers hold some value now, and are not uninitialised variables.
__device__ __forceinline__ void declare_accumulators(float& d) { asm volatile("" : "=f"(d)); }
template <typename D, int N>
__device__ __forceinline__ void declare_accumulators(D (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) declare_accumulators(d[i]);
}

// After the wait for the last wgmma that writes D: what comes later reads what is there now. Not
// while another is under way, which would be to use the registers.
__device__ __forceinline__ void finish_accumulators(float& d) {
  asm volatile("" : "+f"(d)::"memory");
}
__device__ __forceinline__ void finish_accumulators(int32_t& d) {
  asm volatile("" : "+r"(d)::"memory");
}
template <typename D, int N>
__device__ __forceinline__ void finish_accumulators(D (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) finish_accumulators(d[i]);
}

// Wgmma<T, N>::run<A_MN_MAJOR, B_MN_MAJOR>(d, a, b, accumulate): a and b are matrix descriptors
// (swizzle.cuh); tf32, fp8 and bytes are contiguous along K. Wgmma<Tf32,
// N>::run_from_registers(...) has A in registers, which must stay as they are until the group has
// been waited for: with d's w and l,
//     a[0], a[1] = A[16 w + l / 4 + 0, 8][l % 4],   a[2], a[3] = A[16 w + l / 4 + 0, 8][l % 4 + 4]
template <typename T, int N>
struct Wgmma;

// The operands of the instruction: eight of D's registers at a time, or the four that n8 has.
#define TILED_REGISTERS_HALF "%0, %1, %2, %3"
#define TILED_REGISTERS_1 "%0, %1, %2, %3, %4, %5, %6, %7"
#define TILED_REGISTERS_2 \
  TILED_REGISTERS_1       \
  ", "                    \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define TILED_REGISTERS_3 \
  TILED_REGISTERS_2       \
  ", "                    \
  "%16, %17, %18, %19, %20, %21, %22, %23"
#define TILED_REGISTERS_4 \
  TILED_REGISTERS_3       \
  ", "                    \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define TILED_REGISTERS_5 \
  TILED_REGISTERS_4       \
  ", "                    \
  "%32, %33, %34, %35, %36, %37, %38, %39"
#define TILED_REGISTERS_6 \
  TILED_REGISTERS_5       \
  ", "                    \
  "%40, %41, %42, %43, %44, %45, %46, %47"
#define TILED_REGISTERS_7 \
  TILED_REGISTERS_6       \
  ", "                    \
  "%48, %49, %50, %51, %52, %53, %54, %55"
#define TILED_REGISTERS_8 \
  TILED_REGISTERS_7       \
  ", "                    \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define TILED_REGISTERS_9 \
  TILED_REGISTERS_8       \
  ", "                    \
  "%64, %65, %66, %67, %68, %69, %70, %71"
#define TILED_REGISTERS_10 \
  TILED_REGISTERS_9        \
  ", "                     \
  "%72, %73, %74, %75, %76, %77, %78, %79"
#define TILED_REGISTERS_11 \
  TILED_REGISTERS_10       \
  ", "                     \
  "%80, %81, %82, %83, %84, %85, %86, %87"
#define TILED_REGISTERS_12 \
  TILED_REGISTERS_11       \
  ", "                     \
  "%88, %89, %90, %91, %92, %93, %94, %95"
#define TILED_REGISTERS_13 \
  TILED_REGISTERS_12       \
  ", "                     \
  "%96, %97, %98, %99, %100, %101, %102, %103"
#define TILED_REGISTERS_14 \
  TILED_REGISTERS_13       \
  ", "                     \
  "%104, %105, %106, %107, %108, %109, %110, %111"
#define TILED_REGISTERS_15 \
  TILED_REGISTERS_14       \
  ", "                     \
  "%112, %113, %114, %115, %116, %117, %118, %119"
#define TILED_REGISTERS_16 \
  TILED_REGISTERS_15       \
  ", "                     \
  "%120, %121, %122, %123, %124, %125, %126, %127"
#define TILED_D8(R, i) \
  R(d[i]), R(d[i + 1]), R(d[i + 2]), R(d[i + 3]), R(d[i + 4]), R(d[i + 5]), R(d[i + 6]), R(d[i + 7])
#define TILED_OUTPUTS_HALF(R) R(d[0]), R(d[1]), R(d[2]), R(d[3])
#define TILED_OUTPUTS_1(R) TILED_D8(R, 0)
#define TILED_OUTPUTS_2(R) TILED_OUTPUTS_1(R), TILED_D8(R, 8)
#define TILED_OUTPUTS_3(R) TILED_OUTPUTS_2(R), TILED_D8(R, 16)
#define TILED_OUTPUTS_4(R) TILED_OUTPUTS_3(R), TILED_D8(R, 24)
#define TILED_OUTPUTS_5(R) TILED_OUTPUTS_4(R), TILED_D8(R, 32)
#define TILED_OUTPUTS_6(R) TILED_OUTPUTS_5(R), TILED_D8(R, 40)
#define TILED_OUTPUTS_7(R) TILED_OUTPUTS_6(R), TILED_D8(R, 48)
#define TILED_OUTPUTS_8(R) TILED_OUTPUTS_7(R), TILED_D8(R, 56)
#define TILED_OUTPUTS_9(R) TILED_OUTPUTS_8(R), TILED_D8(R, 64)
#define TILED_OUTPUTS_10(R) TILED_OUTPUTS_9(R), TILED_D8(R, 72)
#define TILED_OUTPUTS_11(R) TILED_OUTPUTS_10(R), TILED_D8(R, 80)
#define TILED_OUTPUTS_12(R) TILED_OUTPUTS_11(R), TILED_D8(R, 88)
#define TILED_OUTPUTS_13(R) TILED_OUTPUTS_12(R), TILED_D8(R, 96)
#define TILED_OUTPUTS_14(R) TILED_OUTPUTS_13(R), TILED_D8(R, 104)
#define TILED_OUTPUTS_15(R) TILED_OUTPUTS_14(R), TILED_D8(R, 112)
#define TILED_OUTPUTS_16(R) TILED_OUTPUTS_15(R), TILED_D8(R, 120)

// GROUPS = N / 16, or HALF; A to F: the numbers of the operands after D's N / 2 registers.
#define TILED_WGMMA_16BIT(T, NAME, N, GROUPS, A, B, C, D, E)                                   \
  template <>                                                                                  \
  struct Wgmma<T, N> {                                                                         \
    template <bool A_MN_MAJOR, bool B_MN_MAJOR>                                                \
    static __device__ __forceinline__ void run(float (&d)[N / 2], uint64_t a, uint64_t b,      \
                                               int accumulate) {                               \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #C                                     \
                   ", 0;\n"                                                                    \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME "." NAME             \
                   " {" TILED_REGISTERS_##GROUPS "}, %" #A ", %" #B ", p, 1, 1, %" #D ", %" #E \
                                                 ";\n}"                                        \
                   : TILED_OUTPUTS_##GROUPS("+f")                                              \
                   : "l"(a), "l"(b), "r"(accumulate), "n"(A_MN_MAJOR), "n"(B_MN_MAJOR));       \
    }                                                                                          \
  };

#define TILED_WGMMA_TF32(N, GROUPS, A, B, C, D, E, F)                                             \
  template <>                                                                                     \
  struct Wgmma<Tf32, N> {                                                                         \
    template <bool A_MN_MAJOR, bool B_MN_MAJOR>                                                   \
    static __device__ __forceinline__ void run(float (&d)[N / 2], uint64_t a, uint64_t b,         \
                                               int accumulate) {                                  \
      static_assert(!A_MN_MAJOR && !B_MN_MAJOR, "tf32 operands lie along K");                     \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #C                                        \
                   ", 0;\n"                                                                       \
                   "wgmma.mma_async.sync.aligned.m64n" #N                                         \
                   "k8.f32.tf32.tf32"                                                             \
                   " {" TILED_REGISTERS_##GROUPS "}, %" #A ", %" #B ", p, 1, 1;\n}"               \
                   : TILED_OUTPUTS_##GROUPS("+f")                                                 \
                   : "l"(a), "l"(b), "r"(accumulate));                                            \
    }                                                                                             \
    static __device__ __forceinline__ void run_from_registers(float (&d)[N / 2],                  \
                                                              const uint32_t (&a)[4], uint64_t b, \
                                                              int accumulate) {                   \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #F                                        \
                   ", 0;\n"                                                                       \
                   "wgmma.mma_async.sync.aligned.m64n" #N                                         \
                   "k8.f32.tf32.tf32"                                                             \
                   " {" TILED_REGISTERS_##GROUPS "}, {%" #A ", %" #B ", %" #C ", %" #D "}, %" #E  \
                                                 ", p, 1, 1;\n}"                                  \
                   : TILED_OUTPUTS_##GROUPS("+f")                                                 \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));        \
    }                                                                                             \
  };

// R: the constraint of D's registers; SIGNS: of the operands, which integers do not have. Last
// comes the operands' type.
#define TILED_WGMMA_8BIT(D, D_NAME, R, SIGNS, A_NAME, B_NAME, N, GROUPS, A, B, C, ...)        \
  template <>                                                                                 \
  struct Wgmma<__VA_ARGS__, N> {                                                              \
    template <bool A_MN_MAJOR, bool B_MN_MAJOR>                                               \
    static __device__ __forceinline__ void run(D (&d)[N / 2], uint64_t a, uint64_t b,         \
                                               int accumulate) {                              \
      static_assert(!A_MN_MAJOR && !B_MN_MAJOR, "operands of 8 bits are contiguous along K"); \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #C                                    \
                   ", 0;\n"                                                                   \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k32." D_NAME "." A_NAME "." B_NAME \
                   " {" TILED_REGISTERS_##GROUPS "}, %" #A ", %" #B ", p" SIGNS ";\n}"        \
                   : TILED_OUTPUTS_##GROUPS(R)                                                \
                   : "l"(a), "l"(b), "r"(accumulate));                                        \
    }                                                                                         \
  };
#define TILED_WGMMA_FP8(TA, A_NAME, TB, B_NAME, N, GROUPS, A, B, C) \
  TILED_WGMMA_8BIT(float, "f32", "+f", ", 1, 1", A_NAME, B_NAME, N, GROUPS, A, B, C, Fp8<TA, TB>)
#define TILED_WGMMA_BYTES(T, NAME, N, GROUPS, A, B, C) \
  TILED_WGMMA_8BIT(int32_t, "s32", "+r", "", NAME, NAME, N, GROUPS, A, B, C, T)

#define TILED_WGMMA(N, GROUPS, A, B, C, D, E, F)                     \
  TILED_WGMMA_16BIT(__nv_bfloat16, "bf16", N, GROUPS, A, B, C, D, E) \
  TILED_WGMMA_16BIT(__half, "f16", N, GROUPS, A, B, C, D, E)         \
  TILED_WGMMA_TF32(N, GROUPS, A, B, C, D, E, F)                      \
  TILED_WGMMA_FP8(E4m3, "e4m3", E4m3, "e4m3", N, GROUPS, A, B, C)    \
  TILED_WGMMA_FP8(E4m3, "e4m3", E5m2, "e5m2", N, GROUPS, A, B, C)    \
  TILED_WGMMA_FP8(E5m2, "e5m2", E4m3, "e4m3", N, GROUPS, A, B, C)    \
  TILED_WGMMA_FP8(E5m2, "e5m2", E5m2, "e5m2", N, GROUPS, A, B, C)    \
  TILED_WGMMA_BYTES(signed char, "s8", N, GROUPS, A, B, C)           \
  TILED_WGMMA_BYTES(unsigned char, "u8", N, GROUPS, A, B, C)

TILED_WGMMA(8, HALF, 4, 5, 6, 7, 8, 9)
TILED_WGMMA(16, 1, 8, 9, 10, 11, 12, 13)
TILED_WGMMA(32, 2, 16, 17, 18, 19, 20, 21)
TILED_WGMMA(48, 3, 24, 25, 26, 27, 28, 29)
TILED_WGMMA(64, 4, 32, 33, 34, 35, 36, 37)
TILED_WGMMA(80, 5, 40, 41, 42, 43, 44, 45)
TILED_WGMMA(96, 6, 48, 49, 50, 51, 52, 53)
TILED_WGMMA(112, 7, 56, 57, 58, 59, 60, 61)
TILED_WGMMA(128, 8, 64, 65, 66, 67, 68, 69)
TILED_WGMMA(144, 9, 72, 73, 74, 75, 76, 77)
TILED_WGMMA(160, 10, 80, 81, 82, 83, 84, 85)
TILED_WGMMA(176, 11, 88, 89, 90, 91, 92, 93)
TILED_WGMMA(192, 12, 96, 97, 98, 99, 100, 101)
TILED_WGMMA(208, 13, 104, 105, 106, 107, 108, 109)
TILED_WGMMA(224, 14, 112, 113, 114, 115, 116, 117)
TILED_WGMMA(240, 15, 120, 121, 122, 123, 124, 125)
TILED_WGMMA(256, 16, 128, 129, 130, 131, 132, 133)

#undef TILED_WGMMA
#undef TILED_WGMMA_16BIT
#undef TILED_WGMMA_TF32
#undef TILED_WGMMA_8BIT
#undef TILED_WGMMA_FP8
#undef TILED_WGMMA_BYTES
#undef TILED_D8
#undef TILED_REGISTERS_HALF
#undef TILED_OUTPUTS_HALF
#undef TILED_REGISTERS_1
#undef TILED_OUTPUTS_1
#undef TILED_REGISTERS_2
#undef TILED_OUTPUTS_2
#undef TILED_REGISTERS_3
#undef TILED_OUTPUTS_3
#undef TILED_REGISTERS_4
#undef TILED_OUTPUTS_4
#undef TILED_REGISTERS_5
#undef TILED_OUTPUTS_5
#undef TILED_REGISTERS_6
#undef TILED_OUTPUTS_6
#undef TILED_REGISTERS_7
#undef TILED_OUTPUTS_7
#undef TILED_REGISTERS_8
#undef TILED_OUTPUTS_8
#undef TILED_REGISTERS_9
#undef TILED_OUTPUTS_9
#undef TILED_REGISTERS_10
#undef TILED_OUTPUTS_10
#undef TILED_REGISTERS_11
#undef TILED_OUTPUTS_11
#undef TILED_REGISTERS_12
#undef TILED_OUTPUTS_12
#undef TILED_REGISTERS_13
#undef TILED_OUTPUTS_13
#undef TILED_REGISTERS_14
#undef TILED_OUTPUTS_14
#undef TILED_REGISTERS_15
#undef TILED_OUTPUTS_15
#undef TILED_REGISTERS_16
#undef TILED_OUTPUTS_16

}  // namespace tiled::ptx
