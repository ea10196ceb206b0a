// The types of elements: core/dtypes.inc as an enumeration and a table.
#pragma once

#include <cstdint>

namespace tiled {

enum class DType : int8_t {
#define DTYPE(dtype, name, torch, bytes, sum_bytes, kind, element) dtype,
#define SCALED_DTYPE DTYPE
#include "core/dtypes.inc"
};

// The dtypes of products without scales.
constexpr DType ALL_DTYPES[] = {
#define DTYPE(dtype, name, torch, bytes, sum_bytes, kind, element) DType::dtype,
#include "core/dtypes.inc"
};

constexpr int DTYPE_COUNT = sizeof ALL_DTYPES / sizeof ALL_DTYPES[0];

enum class DTypeKind : int8_t { Real, Complex, Integer };

struct DTypeInfo {
  const char* name;
  int8_t bytes, accumulator_bytes;
  DTypeKind kind;
};

constexpr DTypeInfo info_of(DType dtype) {
  switch (dtype) {
#define DTYPE(dtype, name, torch, bytes, sum_bytes, kind, element) \
  case DType::dtype: return {#name, bytes, sum_bytes, DTypeKind::kind};
#define SCALED_DTYPE DTYPE
#include "core/dtypes.inc"
  }
  return {};
}

// Bytes of one element.
constexpr int64_t size_of(DType dtype) { return info_of(dtype).bytes; }

// Bytes of the value that a chain is summed in; shared memory holds operands widened to it.
constexpr int accumulator_bytes(DType dtype) { return info_of(dtype).accumulator_bytes; }

constexpr bool is_complex(DType dtype) { return info_of(dtype).kind == DTypeKind::Complex; }
constexpr bool is_fp8(DType dtype) {
  return dtype == DType::Float8E4M3FN || dtype == DType::Float8E5M2;
}
constexpr bool is_integer(DType dtype) { return info_of(dtype).kind == DTypeKind::Integer; }

// torch's name of the dtype, without the prefix.
constexpr const char* name_of(DType dtype) { return info_of(dtype).name; }

}  // namespace tiled
