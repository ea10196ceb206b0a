// movmatrix in software (block.h).
#pragma once

#include "software_gpu/block.h"

namespace tiled::ptx {

inline uint32_t movmatrix_trans(uint32_t two) {
  struct Lane {
    uint32_t two, transposed;
  } lane = {two, 0};
  software_gpu::block.together(
      [](void* const(&lanes)[software_gpu::WARP]) {
        const auto element = [&](int row, int column) {
          return static_cast<Lane*>(lanes[4 * row + column / 2])->two >> column % 2 * 16 & 0xffff;
        };
        for (int l = 0; l < software_gpu::WARP; ++l) {
          const int column = l / 4, row = l % 4 * 2;
          static_cast<Lane*>(lanes[l])->transposed = element(row, column) | element(row + 1, column)
                                                                                << 16;
        }
      },
      &lane);
  return lane.transposed;
}

}  // namespace tiled::ptx
