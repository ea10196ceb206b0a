// No instruction: the compiler takes a sum for another one from here on, so that it keeps what is
// added to it in the order of what stands around it.
#pragma once

namespace tiled::ptx {

__device__ __forceinline__ void opaque_sum(float& x) { asm volatile("" : "+f"(x)); }

}  // namespace tiled::ptx
