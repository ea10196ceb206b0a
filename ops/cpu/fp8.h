// fp8 as floats, by a table of all 256.
//
//     e4m3fn   1 sign, 4 exponent (bias 7), 3 fraction; no infinities, 0x7f and 0xff are NaN
//     e5m2     1 sign, 5 exponent (bias 15), 2 fraction; as the upper byte of an fp16
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "core/dtype.h"

namespace tiled::cpu {

using Fp8Table = std::array<float, 256>;

constexpr Fp8Table table_of(DType dtype) {
  const bool e4m3 = dtype == DType::Float8E4M3FN;
  const int fraction_bits = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15;
  const int most = (1 << (7 - fraction_bits)) - 1;  // the exponent of all ones
  Fp8Table table{};
  for (int bits = 0; bits < 256; ++bits) {
    const int exponent = bits >> fraction_bits & most;
    const int fraction = bits & ((1 << fraction_bits) - 1);
    float value = static_cast<float>(exponent == 0 ? fraction : fraction + (1 << fraction_bits));
    for (int e = (exponent == 0 ? 1 : exponent) - bias - fraction_bits; e != 0; e += e < 0 ? 1 : -1)
      value = e < 0 ? value / 2 : value * 2;
    if (e4m3 && (bits & 0x7f) == 0x7f) value = std::numeric_limits<float>::quiet_NaN();
    if (!e4m3 && exponent == most)
      value = fraction == 0 ? std::numeric_limits<float>::infinity()
                            : std::numeric_limits<float>::quiet_NaN();
    table[bits] = bits < 0x80 ? value : -value;
  }
  return table;
}

inline constexpr Fp8Table E4M3FN = table_of(DType::Float8E4M3FN);
inline constexpr Fp8Table E5M2 = table_of(DType::Float8E5M2);

inline const Fp8Table& floats_of(DType dtype) {
  return dtype == DType::Float8E4M3FN ? E4M3FN : E5M2;
}

}  // namespace tiled::cpu
