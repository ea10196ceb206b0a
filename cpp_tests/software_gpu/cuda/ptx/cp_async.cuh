// cp.async in software (block.h).
#pragma once

#include "software_gpu/block.h"

namespace tiled::ptx {

inline void cp_async_4(uint32_t shared, const void* global, int bytes = 4) {
  software_gpu::block.start({shared, global, bytes, 4});
}
inline void cp_async_8(uint32_t shared, const void* global, int bytes = 8) {
  software_gpu::block.start({shared, global, bytes, 8});
}
inline void cp_async_16(uint32_t shared, const void* global, int bytes = 16) {
  software_gpu::block.start({shared, global, bytes, 16});
}
inline void cp_async_commit_group() { software_gpu::block.commit(); }
template <int PENDING>
void cp_async_wait_group() {
  software_gpu::block.wait(PENDING);
}

}  // namespace tiled::ptx
