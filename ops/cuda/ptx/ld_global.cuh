// Global memory past the L1 cache (PTX ISA, "ld").
#pragma once

#include <cuda_runtime_api.h>

namespace tiled::ptx {

// 16 bytes from L2, where `reads`; else zeros, and the address is of no account. No branch.
__device__ __forceinline__ float4 load_global_or_zero(const float4* from, bool reads) {
  float4 v;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %5, 0;\n"
      "mov.b32 %0, 0;\n"
      "mov.b32 %1, 0;\n"
      "mov.b32 %2, 0;\n"
      "mov.b32 %3, 0;\n"
      "@p ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];\n"
      "}"
      : "=&f"(v.x), "=&f"(v.y), "=&f"(v.z), "=&f"(v.w)
      : "l"(__cvta_generic_to_global(from)), "r"(static_cast<int>(reads))
      : "memory");
  return v;
}

}  // namespace tiled::ptx
