// Hints that memory will be read. No thread waits for them.
#pragma once

namespace tiled::ptx {

// Into the first-level cache, `data` being an address of global memory.
__device__ __forceinline__ void prefetch_l1(const void* data) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(__cvta_generic_to_global(data)));
}

}  // namespace tiled::ptx
