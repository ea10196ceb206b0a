// mma.sync in software (block.h): exact where sums of products are numbers of fp32, or wrapped. A
// step of k is 32 bytes. Of a float it sees the upper 19 bits, as hardware does.
#pragma once

#include "software_gpu/block.h"

namespace tiled::ptx {

template <typename T, typename Sum>
void mma(T, Sum (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  struct Lane {
    Sum* d;
    const uint32_t *a, *b;
  } lane = {d, a, b};
  software_gpu::block.together(
      [](void* const(&lanes)[software_gpu::WARP]) {
        constexpr int PER_WORD = 4 / sizeof(T);
        const auto value = [](uint32_t word, int i) {
          const uint32_t bits = (sizeof(T) == 4 ? word & ~0x1fffu : word) >> i * sizeof(T) * 8;
          T number;
          std::memcpy(static_cast<void*>(&number), &bits, sizeof number);
          return static_cast<Sum>(number);
        };
        const auto lane_of = [&](int g, int t) { return static_cast<Lane*>(lanes[4 * g + t]); };
        for (int row = 0; row < 16; ++row)
          for (int column = 0; column < 8; ++column) {
            Sum& sum = lane_of(row % 8, column / 2)->d[row / 8 * 2 + column % 2];
            for (int word = 0; word < 8; ++word)
              for (int i = 0; i < PER_WORD; ++i)
                sum += value(lane_of(row % 8, word % 4)->a[word / 4 * 2 + row / 8], i) *
                       value(lane_of(column, word % 4)->b[word / 4], i);
          }
      },
      &lane);
}

}  // namespace tiled::ptx
