// A tensor to fp8 with a scale for each block, as plain data: what a kernel of either device does
// in one pass.
//
//     scale = the block's largest element in size / the largest number of fp8; at least 2^-126, and
//             1 where the block is all zeros
//     data  = x * (1 / scale), rounded to nearest, ties to even, and no larger than that number
//
// all of it in fp32. A block is 128 columns of one row or, if `square`, of 128 rows. Where data_t
// is not null, x's transpose is made of the same blocks, if they are square, else of its own.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/elementary.h"

namespace tiled {

struct Quantization {
  const void* x;  // [entries][rows][columns], columns side by side
  DType from;     // Float32, Float16 or BFloat16
  DType to;       // Float8E4M3FN or Float8E5M2
  int64_t entries, rows, columns;
  int64_t entry_stride, row_stride;  // elements
  bool square;
  void* data;  // [entries][rows][columns]
  // Where blocks are square [entries][blocks of rows][blocks of columns], else rows lie side by
  // side, as a product reads them: [entries][blocks of columns][rows].
  float* scale;
  void* data_t;    // [entries][columns][rows], or null
  float* scale_t;  // [entries][blocks of rows][columns]; not written where blocks are square
};

constexpr float largest_of(DType fp8) { return fp8 == DType::Float8E4M3FN ? 448.f : 57344.f; }
constexpr float LEAST_SCALE = 0x1p-126f;  // fp32's least normal number

// The scale of a block whose largest element has this size; NaN of NaN.
TILED_HOST_DEVICE float scale_of(float largest, float most) {
  const float scale = largest / most;
  if (largest == 0) return 1;
  return scale < LEAST_SCALE ? LEAST_SCALE : scale;
}

}  // namespace tiled
