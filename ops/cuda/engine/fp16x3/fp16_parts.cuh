// One fp32 element in two fp16 parts, as rung fp16x3 has them (split.cu says which and why), and
// what the parts lose.
#pragma once

#include <cuda_fp16.h>

#include "cuda/engine/fp16x3/fp16x3.h"

namespace tiled {

constexpr float LOST_UNIT = 0x1p-44f;
// More than can be lost because the upper part of an element is subnormal, or zero: the product of
// two lower parts, which is left out, and the tensor core's alignment of the step's other products,
// since it takes a subnormal factor for one of exponent -14 (docs/fp16x3.md).
constexpr uint32_t SUBNORMAL_UNITS = 512;

// Units that the parts of `x` lose, `y` being it times its scale, in units. Where the upper part is
// a normal number they lose what 22 bits lose, which the error bound has room for; below, the lower
// part ends at 2^-35. Adding and taking away a number whose last place that is rounds to it; adding
// one whose last place is a unit, upwards, counts the rest.
__device__ __forceinline__ uint32_t lost_units(float x, float y) {
  constexpr float TO_PARTS = 0x1.8p32f, TO_UNITS = 0x1p23f, NORMAL = 0x1p-14f / LOST_UNIT;
  const float rest = y - __fadd_rn(__fadd_rn(y, TO_PARTS), -TO_PARTS);
  const uint32_t units = __float_as_uint(__fadd_ru(fabsf(rest), TO_UNITS));
  const uint32_t none = __float_as_uint(TO_UNITS) - SUBNORMAL_UNITS;
  return (fabsf(y) < NORMAL && x != 0 ? units : none) - none;
}

// The parts of one element, and the units that they lose.
struct Fp16Parts {
  __half hi, lo;
  uint32_t lost;
};
__device__ __forceinline__ Fp16Parts split(float x, float scale1, float scale2) {
  const float scaled = x * scale1 * scale2;
  const __half hi = __float2half_rn(scaled);
  const __half lo = __float2half_rn((scaled - __half2float(hi)) * 0x1p11f);
  return {hi, lo, lost_units(x, scaled * (1 / LOST_UNIT))};
}

// Bits of |x|, which are ordered as the numbers are, NaN above all.
__device__ __forceinline__ uint32_t magnitude(float x) { return __float_as_uint(x) & 0x7fffffff; }

// The largest magnitude of some elements, and the smallest of those that are not zero, less one, so
// that none is the largest.
struct MagnitudeRange {
  uint32_t most = 0, least = ~0u;
  __device__ __forceinline__ void include(float x) {
    most = max(most, magnitude(x));
    least = __viaddmin_u32(magnitude(x), ~0u, least);
  }
};

// Two elements in parts, neighbours in memory.
struct PairParts {
  __half2 hi, lo;
};

// A row's scale as two factors, either of them a normal number: exponents reach from -113 to 163.
struct Scale {
  int exponent;
  float factor1, factor2;
  bool finite;
  __device__ __forceinline__ explicit Scale(uint32_t max_bits) {
    finite = max_bits < 0x7f800000;
    const int of_max = max_bits == 0 || !finite ? 14 : ilogbf(__uint_as_float(max_bits));
    exponent = 14 - of_max;
    const int half = exponent / 2;
    factor1 = finite ? __int_as_float((127 + half) << 23) : 0;
    factor2 = finite ? __int_as_float((127 + exponent - half) << 23) : 0;
  }
  // Whether elements of this range lose nothing that counts and one factor scales them: nearly
  // always, and worth a path with half the instructions. (A subnormal number's exponent is not in
  // its bits: the path that counts has those.)
  __device__ __forceinline__ bool is_plain(uint32_t least) const {
    const int biased = static_cast<int>((least + 1) >> 23);
    const bool counts = least != ~0u && (biased == 0 || biased - 127 + exponent < -14);
    return finite && exponent <= 127 && !counts;
  }
  __device__ __forceinline__ Fp16Parts split(float x) const {
    return tiled::split(finite ? x : 0, factor1, factor2);
  }
  // The units that split() of some elements loses; with one factor where that takes them to units
  // and none vanishes.
  template <int COUNT>
  __device__ __forceinline__ uint32_t lost(const float (&x)[COUNT]) const {
    static_assert(LOST_UNIT == 0x1p-44f);
    uint32_t units = 0;
    if (finite && exponent >= 0 && exponent <= 83) {
      const float factor = __int_as_float((127 + 44 + exponent) << 23);
#pragma unroll
      for (int i = 0; i < COUNT; ++i) units += lost_units(x[i], x[i] * factor);
    } else {
#pragma unroll
      for (int i = 0; i < COUNT; ++i) units += split(x[i]).lost;
    }
    return units;
  }
  __device__ __forceinline__ RowScale result(unsigned long long lost) const {
    return {exponent, finite ? __ull2float_ru(lost) * LOST_UNIT : INFINITY};
  }
};

// Two elements already scaled, none of which loses anything.
__device__ __forceinline__ PairParts split_plain(float u, float v) {
  const __half2 hi = __floats2half2_rn(u, v);
  const float2 back = __half22float2(hi);
  return {hi, __floats2half2_rn((u - back.x) * 0x1p11f, (v - back.y) * 0x1p11f)};
}

// x of one row and y of the same or another. PLAIN: is_plain() of both; else `lost_x` and `lost_y`
// grow by what is lost.
template <bool PLAIN>
__device__ __forceinline__ PairParts split_pair(float x, float y, const Scale& of_x,
                                                const Scale& of_y, uint32_t& lost_x,
                                                uint32_t& lost_y) {
  if constexpr (PLAIN) {
    return split_plain(x * (of_x.factor1 * of_x.factor2), y * (of_y.factor1 * of_y.factor2));
  } else {
    const Fp16Parts a = of_x.split(x), b = of_y.split(y);
    lost_x += a.lost, lost_y += b.lost;
    return {__halves2half2(a.hi, b.hi), __halves2half2(a.lo, b.lo)};
  }
}

}  // namespace tiled
