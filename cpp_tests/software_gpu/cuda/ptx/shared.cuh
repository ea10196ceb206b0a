// Shared memory by its address, in software (block.h).
#pragma once

#include "software_gpu/block.h"

namespace tiled::ptx {

inline uint4 load_shared_v4(uint32_t address) { return software_gpu::shared_at<uint4>(address); }
inline void store_shared_v4(uint32_t address, uint4 v) {
  software_gpu::shared_at<uint4>(address) = v;
}
inline uint32_t load_shared_u32(uint32_t address) {
  return software_gpu::shared_at<uint32_t>(address);
}
inline double load_shared_f64(uint32_t address) { return software_gpu::shared_at<double>(address); }
inline void store_shared_v2(uint32_t address, float x, float y) {
  software_gpu::shared_at<float2>(address) = make_float2(x, y);
}
inline void store_shared_v2(uint32_t address, int32_t x, int32_t y) {
  software_gpu::shared_at<int2>(address) = make_int2(x, y);
}
inline void store_shared_f32(uint32_t address, float v) {
  software_gpu::shared_at<float>(address) = v;
}
inline void store_shared_u32(uint32_t address, uint32_t v) {
  software_gpu::shared_at<uint32_t>(address) = v;
}

}  // namespace tiled::ptx
