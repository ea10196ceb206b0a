// tiled::_quantize_blocks of a backend, which has
//   static void run(const Quantization&, const at::Tensor& x);
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <tuple>

#include "core/quantization.h"
#include "torch/check_scaled.h"

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

template <typename Backend>
Quantized quantize_blocks(const at::Tensor& given, bool square, at::ScalarType dtype,
                          bool transposed) {
  const at::Tensor x = given.stride(-1) == 1 || given.size(-1) <= 1 ? given : given.contiguous();
  Quantized made = empty_quantized(x, square, dtype, transposed);
  auto& [data, scale, data_t, scale_t] = made;
  const Operand operand = operand_of(x);
  const Quantization pass = {operand.data,
                             dtype_of(x.scalar_type()),
                             scaled_dtype_of(data),
                             x.dim() == 3 ? x.size(0) : 1,
                             x.size(-2),
                             x.size(-1),
                             operand.batch_stride,
                             operand.row_stride,
                             square,
                             data.mutable_data_ptr(),
                             scale.mutable_data_ptr<float>(),
                             transposed ? data_t.mutable_data_ptr() : nullptr,
                             transposed && !square ? scale_t.mutable_data_ptr<float>() : nullptr};
  Backend::run(pass, x);
  if (transposed && square) scale_t.copy_(scale.mT());
  return made;
}

}  // namespace tiled
