// When does the scale of a chunk of a row give the bits that the row's own does? The decisions of
// few_rows.cu, which multiplies by the one before it knows the other (docs/fp16x3.md, "One
// answer").
#pragma once

#include <cuda_fp16.h>

#include "cuda/rungs/9_fp16x3/fp16_parts.cuh"

namespace tiled {

// The scale of one chunk of a row, 2^e with the largest element in [2^14, 2^15), and 2^-e. Without
// meaning where is_moderate() or sure_exponents() turn it down.
struct OwnScale {
  uint32_t exponent;  // biased, of the largest element
  float factor, back;
  __device__ __forceinline__ explicit OwnScale(uint32_t most) {
    exponent = min(max(most >> 23, 14u), 254u);
    factor = __uint_as_float((268 - exponent) << 23);
    back = __uint_as_float((exponent - 14) << 23);
  }
};

// The smallest of some lower parts that are not zero, two at a time; less one, as Range has it.
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

// Whether sums of a row's products can do without the row's scale: they stay within fp32's normal
// numbers.
__device__ __forceinline__ bool is_moderate(const Scale& scale) {
  return scale.finite && scale.exponent >= -60 && scale.exponent <= 90;
}

// The biased exponent of the smallest element; 255 of none.
__device__ __forceinline__ uint32_t least_exponent(const Range& range) {
  return range.least == ~0u ? 255 : (range.least + 1) >> 23;
}

// A row's scale makes what is so many binades below its largest element smaller than 2^-14, and
// fp16's numbers there subnormal.
constexpr uint32_t SURE_BINADES = 28;

// Below which biased exponent of an element, or of its lower part, the scale of a row with this
// largest element may give other bits than that of a chunk.
__device__ __forceinline__ uint32_t sure_exponent(uint32_t most) {
  return is_moderate(Scale(most)) ? max(most >> 23, SURE_BINADES) - SURE_BINADES : 255;
}

// Whether the lower parts of a row's elements are to be looked at. A lower part is zero or at least
// 2^-12 of its element's power of two. So those of elements from 2^0 on, under the chunk's scale,
// are sure under that of a row whose largest element is up to four times the chunk's, as it nearly
// always is; only beside smaller elements may there be others. (And where all is zero.)
__device__ __forceinline__ bool may_be_small(const Range& range, const OwnScale& scale) {
  return range.least < (scale.exponent - 14) << 23 || scale.exponent == 14;
}

}  // namespace tiled
