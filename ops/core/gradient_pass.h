// One pass over a gradient on its way back through an epilogue (epilogue.h): the gradient of the
// pre-activation, and the bias' gradient, its column sums.
//
// The order of a column's sum, in the type that sums have (fp32 of 16-bit gradients), is a function
// of the number of rows alone: the rows are added 32 at a time, each group ascending from +0; the
// groups' sums are added 32 at a time in the same way; and so on, until one is left, which is
// rounded once. So the bits of a column do not depend on other columns, strides, tiles or threads,
// and they are the same on CPU and GPU. No sum meets more than 32 others in a row: with 8192 rows
// three times.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/epilogue.h"

namespace tiled {

constexpr int64_t SUMMED_AT_ONCE = 32;

constexpr int64_t sum_groups(int64_t count) {
  return (count + SUMMED_AT_ONCE - 1) / SUMMED_AT_ONCE;
}

// A matrix that is read, element (i, j) at data + (i * row_stride + j * col_stride) elements.
struct GradientOperand {
  const void* data = nullptr;
  int64_t row_stride = 0, col_stride = 0;
};

struct GradientPass {
  int64_t rows, columns;  // at least 1
  DType dtype;            // real floating-point, of all three matrices
  Activation activation;
  GradientOperand gradient;
  GradientOperand pre_activation;  // the activation, or relu's result; not read where there is none
  void* result = nullptr;          // [rows, columns], contiguous; null: not asked for
  void* bias = nullptr;            // [columns], contiguous; null: not asked for
  DType bias_dtype = DType::Float32;  // of fp32 sums fp32, fp16 or bf16, else the sums'

  constexpr DType sum_dtype() const {
    return dtype == DType::Float64 ? DType::Float64 : DType::Float32;
  }
};

}  // namespace tiled
