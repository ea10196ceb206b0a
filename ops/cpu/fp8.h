// fp8 as floats, by a table of all 256, and back.
//
//     e4m3fn   1 sign, 4 exponent (bias 7), 3 fraction; no infinities, 0x7f and 0xff are NaN
//     e5m2     1 sign, 5 exponent (bias 15), 2 fraction; as the upper byte of an fp16
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "core/dtype.h"
#include "core/elementary.h"

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

// To nearest, ties to even, of a number no larger than the format's largest; NaN is 0x7f, as a
// GPU's conversion has it.
inline uint8_t rounded_to_fp8(float x, DType dtype) {
  using elementary::bits_as;
  const bool e4m3 = dtype == DType::Float8E4M3FN;
  const int dropped = e4m3 ? 20 : 21;        // bits of a float's fraction
  const uint32_t rebias = e4m3 ? 120 : 112;  // a float's bias less the format's
  const uint32_t bits = bits_as<uint32_t>(x), sign = bits >> 24 & 0x80, size = bits & 0x7fffffff;
  if (size > 0x7f800000) return 0x7f;
  if (size < (rebias + 1) << 23) {
    // Below the least normal number the result counts units of the least subnormal one, which is
    // the last place of this number, so that the addition rounds as wanted.
    const float units = e4m3 ? 0x1p14f : 0x1p7f;
    return static_cast<uint8_t>(
        sign | (bits_as<uint32_t>(bits_as<float>(size) + units) - bits_as<uint32_t>(units)));
  }
  const uint32_t rounded = size + (1u << (dropped - 1)) - 1 + (size >> dropped & 1);
  return static_cast<uint8_t>(sign | (rounded - (rebias << 23)) >> dropped);
}

}  // namespace tiled::cpu
