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

// L2's policy for the lines that are stored or loaded by them. Making one takes some instructions:
// once for many stores.
struct CachePolicy {
  uint64_t bits = 0;
};
// Sums that are written and read once more, soon and by another kernel, stay in L2 while operands
// stream through, until they have been loaded by leave_first().
__device__ __forceinline__ CachePolicy leave_last() {
  CachePolicy policy;
#if __CUDA_ARCH__ >= 800
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy.bits));
#endif
  return policy;
}
__device__ __forceinline__ CachePolicy leave_first() {
  CachePolicy policy;
#if __CUDA_ARCH__ >= 800
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy.bits));
#endif
  return policy;
}

__device__ __forceinline__ void store_global(float* to, float v, CachePolicy policy) {
#if __CUDA_ARCH__ >= 800
  asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" ::"l"(to), "f"(v), "l"(policy.bits)
               : "memory");
#else
  *to = v;
#endif
}
__device__ __forceinline__ void store_global(float2* to, float2 v, CachePolicy policy) {
#if __CUDA_ARCH__ >= 800
  asm volatile("st.global.L2::cache_hint.v2.f32 [%0], {%1, %2}, %3;" ::"l"(to), "f"(v.x), "f"(v.y),
               "l"(policy.bits)
               : "memory");
#else
  *to = v;
#endif
}
__device__ __forceinline__ uint4 load_global(const uint4* from, CachePolicy policy) {
  uint4 v;
#if __CUDA_ARCH__ >= 800
  asm volatile("ld.global.cg.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from), "l"(policy.bits)
               : "memory");
#else
  v = __ldcg(from);
#endif
  return v;
}

}  // namespace tiled::ptx
