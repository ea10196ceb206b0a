// ldmatrix in software (block.h).
#pragma once

#include "software_gpu/block.h"

namespace tiled::ptx {

template <bool TRANSPOSED>
void ldmatrix_x4_of(uint32_t (&values)[4], uint32_t address) {
  struct Lane {
    uint32_t* values;
    uint32_t address;
  } lane = {values, address};
  software_gpu::block.together(
      [](void* const(&lanes)[software_gpu::WARP]) {
        const auto element = [&](int matrix, int row, int column) {
          const uint32_t address = static_cast<Lane*>(lanes[8 * matrix + row])->address;
          if (address % 16 != 0) throw std::runtime_error("ldmatrix: rows are of 16 bytes");
          return software_gpu::shared_at<uint16_t>(address + 2 * column);
        };
        for (int l = 0; l < software_gpu::WARP; ++l)
          for (int matrix = 0; matrix < 4; ++matrix) {
            const auto at = [&](int i) {
              const int a = l / 4, b = l % 4 * 2 + i;
              return TRANSPOSED ? element(matrix, b, a) : element(matrix, a, b);
            };
            static_cast<Lane*>(lanes[l])->values[matrix] = at(0) | uint32_t{at(1)} << 16;
          }
      },
      &lane);
}
inline void ldmatrix_x4(uint32_t (&values)[4], uint32_t address) {
  ldmatrix_x4_of<false>(values, address);
}
inline void ldmatrix_x4_trans(uint32_t (&values)[4], uint32_t address) {
  ldmatrix_x4_of<true>(values, address);
}

}  // namespace tiled::ptx
