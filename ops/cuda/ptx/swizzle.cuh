// The layout of a tile in shared memory for wgmma and TMA to find it: rows of 32, 64 or 128 bytes
// whose 16-byte chunks are permuted ("swizzled") so that neither the copy engine nor the tensor
// core meets a bank conflict (PTX ISA, "Matrix Descriptor"; CUDA driver API, CUtensorMapSwizzle).
//
//     128-byte rows: chunk c of row r stands at chunk c ^ (r % 8); the pattern repeats after
//     8 rows, 1024 bytes, and starts at a multiple of that.
#pragma once

#include <cstdint>

namespace tiled::ptx {

// Where byte `offset` of a tile with rows of ROW_BYTES stands (the tile begins at a multiple of
// 1024 bytes).
template <int ROW_BYTES>
__device__ __forceinline__ uint32_t swizzled(uint32_t offset) {
  static_assert(ROW_BYTES == 16 || ROW_BYTES == 32 || ROW_BYTES == 64 || ROW_BYTES == 128,
                "the three patterns, or none");
  return offset ^ (((offset >> 7) & (ROW_BYTES / 16 - 1)) << 4);
}

// A matrix descriptor without its address. `leading` and `stride` are bytes:
//     K-major (rows of mn, ROW_BYTES of k each): stride = from 8 rows to the next 8; leading unused
//     MN-major (rows of k, ROW_BYTES of mn each): leading = from one ROW_BYTES of mn to the next,
//                                                 stride = from 8 rows of k to the next 8
template <int ROW_BYTES>
constexpr uint64_t descriptor_layout(uint64_t leading, uint64_t stride) {
  constexpr uint64_t MODE = ROW_BYTES == 128 ? 1 : ROW_BYTES == 64 ? 2 : 3;
  return MODE << 62 | (stride >> 4) << 32 | (leading >> 4) << 16;
}

// The address as a descriptor has it, of `address` in bytes of the shared window.
__device__ __forceinline__ uint32_t descriptor_start(uint32_t address) {
  return (address & 0x3ffff) >> 4;
}
// A descriptor of its halves: nothing is carried from the lower one, which the address is part of.
__device__ __forceinline__ uint64_t descriptor_of(uint32_t upper, uint32_t lower) {
  return static_cast<uint64_t>(upper) << 32 | lower;
}
// That of what begins there.
__device__ __forceinline__ uint64_t descriptor_at(uint64_t layout, uint32_t start) {
  return descriptor_of(static_cast<uint32_t>(layout >> 32), static_cast<uint32_t>(layout) + start);
}

// `address` in bytes of the shared window.
__device__ __forceinline__ uint64_t descriptor(uint64_t layout, uint32_t address) {
  return descriptor_at(layout, descriptor_start(address));
}

}  // namespace tiled::ptx
