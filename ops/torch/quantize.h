// The results of tiled::_quantize_blocks.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <tuple>

#include "core/scales.h"

namespace tiled {

// data, scale, data_t and scale_t; the last two have no elements where they are not asked for.
using Quantized = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// For x [rows, K] or [E, rows, K], in fp8 of this kind.
inline Quantized empty_quantized(const at::Tensor& x, bool square, at::ScalarType dtype,
                                 bool transposed) {
  const auto blocks = [](const c10::SymInt& n) { return (n + (SCALE_BLOCK - 1)) / SCALE_BLOCK; };
  const c10::SymInt rows = x.sym_size(-2), columns = x.sym_size(-1);
  const auto empty = [&](c10::SymInt first, c10::SymInt second, at::ScalarType type) {
    c10::SymDimVector sizes(x.sym_sizes().begin(), x.sym_sizes().end());
    sizes[sizes.size() - 2] = std::move(first), sizes.back() = std::move(second);
    return at::empty_symint(sizes, x.options().dtype(type));
  };
  // Rows of scales lie side by side (core/quantization.h).
  const auto scale = [&](const c10::SymInt& across, const c10::SymInt& along) {
    return square ? empty(blocks(across), blocks(along), at::kFloat)
                  : empty(blocks(along), across, at::kFloat).mT();
  };
  if (!transposed)
    return {empty(rows, columns, dtype), scale(rows, columns), empty(0, 0, dtype),
            empty(0, 0, at::kFloat)};
  return {empty(rows, columns, dtype), scale(rows, columns), empty(columns, rows, dtype),
          scale(columns, rows)};
}

}  // namespace tiled
