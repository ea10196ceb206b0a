// cvt: rounding to tf32, fp32 with 10 bits of fraction (PTX ISA, "cvt").
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace tiled::ptx {

// To the nearest, ties to even; TMA rounds so where a tensor map is of type TFLOAT32 (compared on
// an H200 over ties, subnormals, overflow, Inf and NaN).
__device__ __forceinline__ float round_to_tf32(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t bits;
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return __uint_as_float(bits);
#else  // 8.x has no instruction for it
  const uint32_t bits = __float_as_uint(value);
  return __uint_as_float(value == value ? bits + 0xfff + (bits >> 13 & 1) : 0x7fffffff);
#endif
}

// 16-bit values are tensor-core operands as they are.
__device__ __forceinline__ __half round_to_tf32(__half value) { return value; }
__device__ __forceinline__ __nv_bfloat16 round_to_tf32(__nv_bfloat16 value) { return value; }

}  // namespace tiled::ptx
