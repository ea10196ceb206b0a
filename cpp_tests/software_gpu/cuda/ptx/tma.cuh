// TMA's loads in software (block.h): a tensor map holds what a test has put there, and a copy is
// made at once, or the engine takes its time while others go on.
#pragma once

#include <cuda.h>

#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/swizzle.cuh"

namespace tiled::ptx {

struct SoftwareMap {
  const char* data;
  int64_t sizes[3];                  // elements, innermost first
  int64_t strides[2];                // bytes, of the second and the third
  int element_bytes, columns, rows;  // of a box
};
static_assert(sizeof(SoftwareMap) <= sizeof(CUtensorMap));

inline void prefetch_tensormap(const CUtensorMap*) {}

inline uint32_t swizzled_by(int row_bytes, uint32_t offset) {
  switch (row_bytes) {
    case 128: return swizzled<128>(offset);
    case 64: return swizzled<64>(offset);
    case 32: return swizzled<32>(offset);
    default: return offset;
  }
}

inline void tma_load(uint32_t shared, const CUtensorMap* encoded, int32_t x, int32_t y, int32_t z,
                     uint32_t barrier) {
  SoftwareMap map;
  std::memcpy(&map, encoded, sizeof map);
  const int row_bytes = map.columns * map.element_bytes;
  if (shared % 128 != 0 || (shared % 1024 != 0 && row_bytes == 128))
    throw std::runtime_error("a box begins where its pattern does not");
  if (software_gpu::block.draw(2)) software_gpu::block.yield();
  for (int row = 0; row < map.rows; ++row)
    for (int column = 0; column < map.columns; ++column) {
      const uint32_t offset = row * row_bytes + column * map.element_bytes;
      char* const to = software_gpu::shared_memory() + shared + swizzled_by(row_bytes, offset);
      const int64_t i = int64_t{x} + column, j = int64_t{y} + row;
      if (i < map.sizes[0] && j < map.sizes[1] && z < map.sizes[2])
        std::memcpy(to, map.data + i * map.element_bytes + j * map.strides[0] + z * map.strides[1],
                    map.element_bytes);
      else
        std::memset(to, 0, map.element_bytes);
    }
  complete_tx(barrier, map.rows * row_bytes);
}

}  // namespace tiled::ptx
