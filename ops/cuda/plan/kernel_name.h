// Parts of the kernels' names, as the compiler's report has them (explain/kernel_resources.h).
#pragma once

#include <string>

#include "cuda/plan/sides.h"
#include "cuda/plan/signed_bytes.h"

namespace tiled {

// The kernels' element type.
inline const char* element_type(DType dtype) {
  constexpr const char* TYPES[] = {
#define DTYPE(dtype, name, torch, bytes, sum_bytes, kind, element) #element,
#define SCALED_DTYPE DTYPE
#include "core/dtypes.inc"
  };
  return TYPES[static_cast<int>(dtype)];
}

// The same of the kernel that runs a problem.
inline const char* element_type(const Problem& problem) {
  return reads_signs(problem) ? "signed char" : element_type(problem.dtype);
}

// The operands' type of wgmma: fp32 is tf32 there.
inline std::string wgmma_type(const Problem& problem) {
  return problem.dtype == DType::Float32 ? "ptx::Tf32" : element_type(problem);
}

inline std::string major_names(const Side& first, const Side& second) {
  return std::string(is_mn_major(first) ? "1" : "0") + ", " + (is_mn_major(second) ? "1" : "0");
}

}  // namespace tiled
