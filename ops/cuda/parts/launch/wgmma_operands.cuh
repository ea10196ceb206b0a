// The instance of a kernel for its operands: lessons 5 and 6 have one for each type and major-ness.
#pragma once

#include <type_traits>

#include "cuda/parts/arithmetic/element.cuh"
#include "cuda/parts/launch/wgmma.h"
#include "cuda/ptx/wgmma.cuh"

namespace tiled {

// function(TypeTag<T>, A_MN_MAJOR, B_MN_MAJOR), the latter two std::bool_constants; float32 means
// tf32, whose operands are contiguous along K.
template <typename Function>
Kernel<WgmmaArguments> with_wgmma_operands(const Problem& problem, Function function) {
  const bool a_mn_major = is_mn_major(side_a(problem)), b_mn_major = is_mn_major(side_b(problem));
  const auto with = [&](auto type) -> Kernel<WgmmaArguments> {
    if (a_mn_major && b_mn_major) return function(type, std::true_type(), std::true_type());
    if (a_mn_major) return function(type, std::true_type(), std::false_type());
    if (b_mn_major) return function(type, std::false_type(), std::true_type());
    return function(type, std::false_type(), std::false_type());
  };
  switch (problem.dtype) {
    case DType::Float16: return with(TypeTag<__half>());
    case DType::BFloat16: return with(TypeTag<__nv_bfloat16>());
    default: return function(TypeTag<ptx::Tf32>(), std::false_type(), std::false_type());
  }
}

}  // namespace tiled
