// mma.sync m16n8k16 in software (block.h): exact where sums of products are numbers of fp32.
#pragma once

#include "software_gpu/block.h"

namespace tiled::ptx {

template <typename T>
void mma(T, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  struct Lane {
    float* d;
    const uint32_t *a, *b;
  } lane = {d, a, b};
  software_gpu::block.together(
      [](void* const(&lanes)[software_gpu::WARP]) {
        const auto value = [](uint32_t word, int i) {
          const uint16_t bits = static_cast<uint16_t>(word >> 16 * i);
          T number;
          std::memcpy(&number, &bits, sizeof bits);
          return static_cast<double>(static_cast<float>(number));
        };
        const auto lane_of = [&](int g, int t) { return static_cast<Lane*>(lanes[4 * g + t]); };
        for (int row = 0; row < 16; ++row)
          for (int column = 0; column < 8; ++column) {
            float& sum = lane_of(row % 8, column / 2)->d[row / 8 * 2 + column % 2];
            double total = sum;
            for (int k = 0; k < 16; ++k)
              total += value(lane_of(row % 8, k % 8 / 2)->a[k / 8 * 2 + row / 8], k % 2) *
                       value(lane_of(column, k % 8 / 2)->b[k / 8], k % 2);
            sum = static_cast<float>(total);
          }
      },
      &lane);
}

}  // namespace tiled::ptx
