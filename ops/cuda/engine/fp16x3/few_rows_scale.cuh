// When does the scale of a chunk of a row give the bits that the row's own does? The decisions of
// few_rows.cu, which multiplies by the one before it knows the other (docs/fp16x3.md, "One
// answer").
#pragma once

#include <cuda_fp16.h>

#include "cuda/engine/fp16x3/fp16_parts.cuh"

namespace tiled {

// Nearly all is decided by exponents, and those are in the upper halves of magnitudes: two of them,
// of two elements or two rows, are in one register and go through one instruction.
constexpr uint32_t in_both(uint32_t half) { return half * 0x10001; }
constexpr uint32_t EXPONENTS = in_both(0x7f80);
__device__ __forceinline__ uint32_t most_of(uint32_t x, uint32_t y) {
  return __vimax3_u16x2(x, y, 0);
}
__device__ __forceinline__ uint32_t least_of(uint32_t x, uint32_t y) {
  return __vimin3_u16x2(x, y, ~0u);
}

__device__ __forceinline__ uint32_t upper_halves(float x, float y) {
  return __byte_perm(__float_as_uint(x), __float_as_uint(y), 0x7632) & in_both(0x7fff);
}

// The largest and the smallest of some upper halves, of even and odd elements apart.
struct UpperHalvesRange {
  uint32_t most = 0, least = ~0u;
  __device__ __forceinline__ void include(const float (&x)[4]) {
    const uint32_t first = upper_halves(x[0], x[1]), second = upper_halves(x[2], x[3]);
    most = __vimax3_u16x2(most, first, second);
    least = __vimin3_u16x2(least, first, second);
  }
};
// The ranges of two rows, each in its half.
__device__ __forceinline__ UpperHalvesRange of_rows(const UpperHalvesRange& x,
                                                    const UpperHalvesRange& y) {
  UpperHalvesRange both;
  both.most = most_of(__byte_perm(x.most, y.most, 0x5410), __byte_perm(x.most, y.most, 0x7632));
  both.least =
      least_of(__byte_perm(x.least, y.least, 0x5410), __byte_perm(x.least, y.least, 0x7632));
  return both;
}

// The scales of two rows, or of a chunk of them, by their largest elements' upper halves: 2^e with
// the largest element in [2^14, 2^15), and 2^-e. Without meaning where is_moderate() or
// sure_exponents() turn it down.
struct TwoScales {
  uint32_t exponents;  // biased, of the largest elements, in place
  __device__ __forceinline__ explicit TwoScales(uint32_t most)
      : exponents(most_of(most & EXPONENTS, in_both(15 << 7))) {}
  __device__ __forceinline__ uint32_t bits(int row) const {
    return row == 0 ? exponents << 16 : exponents & 0xffff0000;
  }
  __device__ __forceinline__ uint32_t exponent(int row) const { return bits(row) >> 23; }
  __device__ __forceinline__ float factor(int row) const {
    return __uint_as_float((268u << 23) - bits(row));
  }
  __device__ __forceinline__ float back(int row) const {
    return __uint_as_float(bits(row) - (14 << 23));
  }
};

// The smallest of some lower parts that are not zero, two at a time; less one, as MagnitudeRange
// has it.
struct LeastLower {
  uint32_t pair = ~0u;
  __device__ __forceinline__ void include(uint32_t lo) {
    pair = __viaddmin_u16x2(lo & 0x7fff7fff, ~0u, pair);
  }
  // Its biased exponent before the chunk's scale; 0 where it is subnormal under it, 255 of none.
  __device__ __forceinline__ uint32_t exponent(uint32_t of_scale) const {
    const uint32_t least = min(pair & 0xffff, pair >> 16);
    const uint32_t of_half = (least + 1) >> 10;
    const uint32_t unscaled = max(of_half + of_scale, 29u) - 29;
    return least == 0xffff ? 255 : of_half == 0 ? 0 : min(unscaled, 254u);
  }
};

// Whether sums of a row's products can do without the scale of its largest element: they stay
// within fp32's normal numbers, and the scale is one factor.
__device__ __forceinline__ bool is_moderate(uint32_t most) {
  return most == 0 || (most >> 23 >= 51 && most >> 23 <= 201);
}

// The biased exponent of the smallest element; 255 of none.
__device__ __forceinline__ uint32_t least_exponent(const MagnitudeRange& range) {
  return range.least == ~0u ? 255 : (range.least + 1) >> 23;
}

// A row's scale makes what is so many binades below its largest element smaller than 2^-14, and
// fp16's numbers there subnormal.
constexpr uint32_t SURE_BINADES = 28;

// Below which biased exponent of an element, or of its lower part, the scale of a row with this
// largest element may give other bits than that of a chunk.
__device__ __forceinline__ uint32_t sure_exponent(uint32_t most) {
  return !is_moderate(most) ? 255 : max(most >> 23, SURE_BINADES) - SURE_BINADES;
}

// A lower part is zero or at least 2^-12 of its element's power of two. So those of elements from
// 2^0 on, under the chunk's scale, are sure under that of a row whose largest element is up to four
// times the chunk's, as it nearly always is; only beside smaller elements, 14 binades below the
// largest, are they looked at.
constexpr uint32_t LOOK_BINADES = 14;
__device__ __forceinline__ uint32_t unseen_exponent(uint32_t of_scale) {
  return max(of_scale, SURE_BINADES - 2) - (SURE_BINADES - 2);
}
// The exponents of four rows, a byte each.
__device__ __forceinline__ uint32_t unseen_exponents(const TwoScales& x, const TwoScales& y) {
  constexpr uint32_t LESS = in_both(0x10000 - ((SURE_BINADES - 2) << 7));
  const uint32_t of_x = __viaddmax_s16x2(x.exponents, LESS, 0);
  const uint32_t of_y = __viaddmax_s16x2(y.exponents, LESS, 0);
  return __byte_perm(of_x << 1, of_y << 1, 0x7531);
}

// Whether one of two rows has an element more than so many binades below its scale's, or one that
// upper halves do not tell from zero.
template <uint32_t BINADES>
__device__ __forceinline__ bool has_below(uint32_t least, const TwoScales& scales) {
  constexpr uint32_t LESS = in_both(0x10000 - (BINADES << 7));
  const uint32_t bound = __viaddmax_s16x2(scales.exponents, LESS, in_both(1 << 7));
  return least_of(least, bound) != bound;
}

}  // namespace tiled
