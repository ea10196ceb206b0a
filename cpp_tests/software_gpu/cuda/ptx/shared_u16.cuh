// 16 bits of shared memory by their address, in software (block.h).
#pragma once

#include "software_gpu/block.h"

namespace tiled::ptx {

inline uint32_t load_shared_u16(uint32_t address) {
  return software_gpu::shared_at<uint16_t>(address);
}
inline void store_shared_u16(uint32_t address, uint16_t v) {
  software_gpu::shared_at<uint16_t>(address) = v;
}

}  // namespace tiled::ptx
