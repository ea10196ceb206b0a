// Shared memory by its address in the shared window (PTX ISA, "ld", "st").
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tiled::ptx {

// `address`: a multiple of the access's size.
__device__ __forceinline__ uint32_t load_shared_u32(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}

__device__ __forceinline__ float load_shared_f32(uint32_t address) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address) : "memory");
  return v;
}

__device__ __forceinline__ float2 load_shared_v2(uint32_t address) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
  return v;
}

__device__ __forceinline__ double load_shared_f64(uint32_t address) {
  double v;
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(v) : "r"(address) : "memory");
  return v;
}

__device__ __forceinline__ uint4 load_shared_v4(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

__device__ __forceinline__ void store_shared_u32(uint32_t address, uint32_t v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}

// Not as the word that it is: the compiler would then keep all of a kernel's sums as words, and
// move them to other registers before each product (ptxas: C7519).
__device__ __forceinline__ void store_shared_f32(uint32_t address, float v) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(v) : "memory");
}

__device__ __forceinline__ void store_shared_v2(uint32_t address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}

__device__ __forceinline__ void store_shared_v2(uint32_t address, int32_t x, int32_t y) {
  asm volatile("st.shared.v2.s32 [%0], {%1, %2};" ::"r"(address), "r"(x), "r"(y) : "memory");
}

__device__ __forceinline__ void store_shared_v4(uint32_t address, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}

}  // namespace tiled::ptx
