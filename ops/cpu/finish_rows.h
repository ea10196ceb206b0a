// The arithmetic of an epilogue on rows of sums, the compiler's to vectorise: core/finish.h and
// core/activation.h leave it nothing to round in another way.
#pragma once

#include "core/finish.h"
#include "cpu/kernels.h"

namespace tiled::cpu {
namespace {

// Strides count accumulators, of which a Number of complex sums has two.
template <typename Number, typename Accumulator>
void combine(const Finish& tile) {
  const Epilogue e = *tile.epilogue;  // a copy, which no sum can overwrite
  const auto row_of = [](const void* rows, int64_t at) {
    return reinterpret_cast<const Number*>(static_cast<const Accumulator*>(rows) + at);
  };
  for (int64_t i = 0; i < tile.rows; ++i) {
    Number* __restrict sums = const_cast<Number*>(row_of(tile.sums, i * tile.sums_row));
    const Number* bias = row_of(tile.bias, i * tile.bias_row);
    if (e.reads_input()) {
      const Number* input = row_of(tile.input, i * tile.input_row);
      for (int64_t j = 0; j < tile.cols; ++j)
        sums[j] = pre_activation_of(e, sums[j], bias[j], input[j]);
    } else {
      for (int64_t j = 0; j < tile.cols; ++j)
        sums[j] = pre_activation_of(e, sums[j], bias[j], Number{});
    }
  }
}

template <typename Real>
void activate(const Finish& tile) {
  const int64_t rows = tile.rows, cols = tile.cols, pitch = tile.sums_row;
  Real* const data = static_cast<Real*>(tile.sums);
  with_activation<Real>(*tile.epilogue, [=](auto f) {
    for (int64_t i = 0; i < rows; ++i) {
      Real* const sums = data + i * pitch;
      for (int64_t j = 0; j < cols; ++j) sums[j] = f(sums[j]);
    }
  });
}

}  // namespace
}  // namespace tiled::cpu
