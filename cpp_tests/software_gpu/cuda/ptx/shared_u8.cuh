// Single bytes of shared memory by their address, in software (block.h).
#pragma once

#include "software_gpu/block.h"

namespace tiled::ptx {

inline void store_shared_u8(uint32_t address, uint32_t v) {
  software_gpu::shared_at<uint8_t>(address) = static_cast<uint8_t>(v);
}

}  // namespace tiled::ptx
