// What an element is.
#pragma once

#include <cstdint>

namespace tiled {

enum class DType : int8_t {
  Float32,
  Float64,
  Float16,
  BFloat16,
  Complex64,
  Complex128,
  Int8,
  Int16,
  Int32,
  Int64,
  UInt8,
};

constexpr int DTYPE_COUNT = 11;

// Bytes of one element.
constexpr int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::Int8:
    case DType::UInt8: return 1;
    case DType::Float16:
    case DType::BFloat16:
    case DType::Int16: return 2;
    case DType::Float32:
    case DType::Int32: return 4;
    case DType::Float64:
    case DType::Complex64:
    case DType::Int64: return 8;
    case DType::Complex128: return 16;
  }
  return 0;
}

// torch's name of the dtype, without the prefix.
constexpr const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::Float32: return "float32";
    case DType::Float64: return "float64";
    case DType::Float16: return "float16";
    case DType::BFloat16: return "bfloat16";
    case DType::Complex64: return "complex64";
    case DType::Complex128: return "complex128";
    case DType::Int8: return "int8";
    case DType::Int16: return "int16";
    case DType::Int32: return "int32";
    case DType::Int64: return "int64";
    case DType::UInt8: return "uint8";
  }
  return "?";
}

}  // namespace tiled
