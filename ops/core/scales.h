// Scaled products: operands of 8 bits whose elements count as often as their scales say.
//
//     C[i, j] = sum over k of (scale_a(i, k) A[i, k]) (scale_b(j, k) B[k, j])
//
// K is cut into blocks of SCALE_BLOCK, from 0 on, the last one padded with zeros; K = 0 has none.
// In this order, all of it in fp32 (docs/contract.md, "fp8"):
//
//     total = +0
//     for each block of K, ascending:
//       sum = the block's products: on tensor cores four steps of 32 into a fresh accumulator, on
//             the CPU one chain of fused multiply-adds from +0
//       where a scale changes along K (is_blockwise):  total = fma(scale_a * scale_b, sum, total)
//       else:                                          total = total + sum
//     else, at the end:                                total = (scale_a * scale_b) * total
//
// with scale_a * scale_b rounded to fp32 first. There is one total for any K: no segments. Then
// comes the epilogue. Where the operands are int8, the sum of all K is one of 32 bits, exact modulo
// 2^32, which becomes fp32 to nearest, and is multiplied at the end; its scales never change along
// K.
//
// So A and B may change places, and the bits of C[i, j] depend on row i of A, column j of B, their
// scales and K.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace tiled {

constexpr int64_t SCALE_BLOCK = 128;

// The parts that have a scale of their own. Where a row is said, it is a row of A or a column of B.
enum class Scaling : int8_t {
  Nothing,       // the product has no scales
  Tensorwise,    // the matrix
  Rowwise,       // each row
  Block1x128,    // each block of K in each row
  Block128x128,  // each block of K in each 128 rows
};

// torch's names of them.
constexpr const char* name_of(Scaling scaling) {
  switch (scaling) {
    case Scaling::Nothing: break;
    case Scaling::Tensorwise: return "TensorWise";
    case Scaling::Rowwise: return "RowWise";
    case Scaling::Block1x128: return "BlockWise1x128";
    case Scaling::Block128x128: return "BlockWise128x128";
  }
  return "?";
}

constexpr bool is_blockwise(Scaling scaling) {
  return scaling == Scaling::Block1x128 || scaling == Scaling::Block128x128;
}

// The scales of one operand. That of row r and block `block` of K, in batch entry b, stands at
// data[b * batch_stride + r * row_stride + block * block_stride], of Block128x128 with r / 128 in
// place of r. Along what a scale holds for all of, its stride is 0: the one formula serves every
// scaling. Null where the product is only planned.
struct OperandScales {
  const float* data = nullptr;
  int64_t row_stride = 0, block_stride = 0, batch_stride = 0;  // floats
  Scaling scaling = Scaling::Nothing;
};

constexpr int64_t scale_offset(const OperandScales& scales, int64_t row, int64_t block) {
  const int64_t index = scales.scaling == Scaling::Block128x128 ? row / SCALE_BLOCK : row;
  return index * scales.row_stride + block * scales.block_stride;
}

struct Scales {
  OperandScales a, b;
  DType b_dtype = DType::Float8E4M3FN;  // the problem's dtype is A's
  // Where groups share out K, blocks are counted from each group's begin. Group g's first block has
  // the scale of block begin / 128, or, if spaced, begin / 128 + g, so that no two groups have one
  // in common wherever they begin.
  bool spaced = false;
};

constexpr bool is_blockwise(const Scales& scales) {
  return is_blockwise(scales.a.scaling) || is_blockwise(scales.b.scaling);
}

}  // namespace tiled
