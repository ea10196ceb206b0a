// Which products of bytes see signs.
#pragma once

#include "core/problem.h"

namespace tiled {

// The low 8 bits of a sum do not depend on its operands' signs, so int8 runs the kernels of uint8.
// The int32 sum does: then its kernels are others, whose element type has a sign.
constexpr bool reads_signs(const Problem& problem) {
  return problem.dtype == DType::Int8 && problem.epilogue.out_dtype == DType::Int32;
}

}  // namespace tiled
