// Global memory by instructions of their own (PTX ISA, "st", "ld" and "createpolicy").
#pragma once

#include <cstdint>

namespace tiled::ptx {

// 16 bytes at a multiple of them, by one instruction: of words that came from shuffles the compiler
// makes four.
__device__ __forceinline__ void store_global_v4(void* to, uint4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}

// What is written and read once more, soon and by another kernel: it stays in L2 while operands
// stream through, until load_global_last() has read it.
__device__ __forceinline__ void store_global_kept(float2* to, float2 v) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "{\n"
      ".reg .b64 policy;\n"
      "createpolicy.fractional.L2::evict_last.b64 policy, 1.0;\n"
      "st.global.L2::cache_hint.v2.f32 [%0], {%1, %2}, policy;\n"
      "}" ::"l"(to),
      "f"(v.x), "f"(v.y)
      : "memory");
#else
  *to = v;
#endif
}
__device__ __forceinline__ uint4 load_global_last(const uint4* from) {
  uint4 v;
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "{\n"
      ".reg .b64 policy;\n"
      "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
      "ld.global.cg.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], policy;\n"
      "}"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(from)
      : "memory");
#else
  v = __ldcg(from);
#endif
  return v;
}

}  // namespace tiled::ptx
