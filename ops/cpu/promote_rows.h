// The promotion of a block's sums (core/scales.h), the compiler's to vectorise.
#pragma once

#include "cpu/kernels.h"
#include "cpu/naive.h"

namespace tiled::cpu {
namespace {

inline void promote(const Promotion& tile) {
  for (int64_t i = 0; i < tile.rows; ++i) {
    const float a = tile.scale_a[i];
    const float* __restrict b = tile.scale_b;
    const float* __restrict sums = tile.sums + i * tile.sums_row;
    float* __restrict totals = tile.totals + i * tile.totals_row;
    for (int64_t j = 0; j < tile.cols; ++j) {
      const float scale = a * b[j];
      totals[j] = multiply_add(scale, sums[j], totals[j]);
    }
  }
}

}  // namespace
}  // namespace tiled::cpu
