// Kernels whose bytes have a sign: their element type is signed char. It is widened to the same
// unsigned sum of 32 bits, which wraps, by its sign.
#pragma once

#include "cuda/parts/arithmetic/element.cuh"
#include "cuda/plan/signed_bytes.h"

namespace tiled {

template <>
struct AccumulatorOf<signed char> {
  using Type = uint32_t;
};

// function(TypeTag<T>) with the element type that the problem's kernel reads.
template <typename Function>
auto with_element_type(const Problem& problem, Function function) {
  return reads_signs(problem) ? function(TypeTag<signed char>{})
                              : with_element_type(problem.dtype, function);
}

}  // namespace tiled
