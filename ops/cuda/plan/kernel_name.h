// Parts of the kernels' names, as the compiler's report has them (explain/kernel_resources.h).
#pragma once

#include <string>

#include "cuda/plan/sides.h"

namespace tiled {

// The kernels' element type. Integers are unsigned there: they wrap modulo 2^bits, so int8 and
// uint8 are one.
inline const char* element_type(DType dtype) {
  switch (dtype) {
    case DType::Float32: return "float";
    case DType::Float64: return "double";
    case DType::Float16: return "__half";
    case DType::BFloat16: return "__nv_bfloat16";
    case DType::Complex64: return "Complex<float>";
    case DType::Complex128: return "Complex<double>";
    case DType::Int8:
    case DType::UInt8: return "unsigned char";
    case DType::Int16: return "unsigned short";
    case DType::Int32: return "unsigned int";
    case DType::Int64: return "unsigned long";
  }
  return "?";
}

// The operands' type of wgmma: fp32 is tf32 there.
inline std::string wgmma_type(DType dtype) {
  return dtype == DType::Float32 ? "ptx::Tf32" : element_type(dtype);
}

inline std::string major_names(const Side& first, const Side& second) {
  return std::string(is_mn_major(first) ? "1" : "0") + ", " + (is_mn_major(second) ? "1" : "0");
}

}  // namespace tiled
