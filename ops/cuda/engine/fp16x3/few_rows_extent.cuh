// The sizes that few_rows.cu learns of a chunk before it is split, and of rows from their chunks:
// the largest elements, and whether any is so small that the row's scale may give other bits than
// the chunk's.
#pragma once

#include <cstddef>

#include "cuda/engine/fp16x3/few_rows_chunk.cuh"
#include "cuda/engine/fp16x3/few_rows_scale.cuh"

namespace tiled {

// In front of the terms in shared memory: of the rows of W that a block has. What concerns all
// of K is first of the block's own chunks, then of the whole cluster's.
struct Head {
  uint32_t most[ROWS];   // of the magnitudes of a row
  uint32_t least[ROWS];  // of what the first pass has found (sure_exponent())
  unsigned long long lost[ROWS];
  RowScale x_scales[FEW_ROWS];
  // In a cluster alone:
  float* terms[FEW_ROWS];  // the first slot of each row of X, in the block that adds them up
  // By its blocks: most and least, and lost.
  uint2 extents[FEW_ROWS_CLUSTER][ROWS];
  unsigned long long losses[FEW_ROWS_CLUSTER][ROWS];
};
static_assert(sizeof(Head) == FEW_ROWS_HEAD && offsetof(Head, terms) == FEW_ROWS_HEAD_ALONE);

// sure_exponent() of a lane's four rows, in bytes.
template <bool BESIDE>
__device__ __forceinline__ uint32_t sure_exponents(const Head& head) {
  uint32_t packed = 0;
#pragma unroll
  for (int r = 0; r < 4; ++r) packed |= sure_exponent(head.most[row_of<BESIDE>(r)]) << 8 * r;
  return packed;
}

// Extents of a chunk's rows 0 and 1, and 2 and 3: the largest elements of all lanes that share a
// row, the smallest of this one.
__device__ __forceinline__ void measure(UpperHalvesRange (&of_chunk)[2], const Chunk& v) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    UpperHalvesRange of_row[2];
#pragma unroll
    for (int s = 0; s < STEPS; ++s)
      of_row[0].include(v[2 * i][s]), of_row[1].include(v[2 * i + 1][s]);
    of_chunk[i] = of_rows(of_row[0], of_row[1]);
  }
#pragma unroll
  for (int by = 1; by <= 2; by *= 2)
#pragma unroll
    for (int i = 0; i < 2; ++i)
      of_chunk[i].most = most_of(of_chunk[i].most, __shfl_xor_sync(~0u, of_chunk[i].most, by));
}

// The biased exponent of a chunk's largest element, by which it is scaled.
__device__ __forceinline__ uint32_t exponent_of(float back) {
  return (__float_as_uint(back) >> 23) + 14;
}

// Where elements are small, or zero: the least exponents of those that are not, in bytes, and what
// they say if lower parts are not looked at. Whether they have to be.
template <bool BESIDE>
__device__ __forceinline__ bool least_elements(uint32_t& found, uint32_t& of_elements,
                                               const Chunk& v, const float (&back)[4], Head& head) {
  bool look = false;
  found = of_elements = 0;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    MagnitudeRange range;
#pragma unroll
    for (int s = 0; s < STEPS; ++s)
#pragma unroll
      for (int j = 0; j < 4; ++j) range.include(v[r][s][j]);
    // A subnormal number's exponent is not in its upper half.
    if (range.most - 1 < 0x7fffff) atomicMax(&head.most[row_of<BESIDE>(r)], range.most);
    const uint32_t least = least_exponent(range), unseen = unseen_exponent(exponent_of(back[r]));
    of_elements |= least << 8 * r;
    found |= (range.least == ~0u ? 255 : min(least, unseen)) << 8 * r;
    look |= range.least < __float_as_uint(back[r]);
  }
  return look;
}

// The least exponents of elements and of lower parts.
__device__ __forceinline__ uint32_t least_parts(const Fragments& parts, uint32_t of_elements,
                                                const float (&back)[4]) {
  uint32_t found = 0;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    LeastLower lower;
#pragma unroll
    for (int i = 0; i < 2 * STEPS; ++i) lower.include(parts[1][r / 2][i / 2][r % 2 + i % 2 * 2]);
    // Where the row's scale is the chunk's, any lower part is sure.
    const uint32_t of_scale = exponent_of(back[r]);
    const uint32_t of_lower =
        max(lower.exponent(of_scale), max(of_scale, SURE_BINADES) - SURE_BINADES);
    found |= min(of_elements >> 8 * r & 0xff, of_lower) << 8 * r;
  }
  return found;
}

// The second time, where elements may be small under the scales of rows: counts what is lost, and
// sees to scales that are not one factor.
template <bool BESIDE>
__device__ __forceinline__ void count_lost(Chunk& v, float (&factor)[4], float (&back)[4],
                                           Head& head) {
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int row = row_of<BESIDE>(r);
    const Scale scale(head.most[row]);
    const bool moderate = is_moderate(head.most[row]);
    uint32_t lost = 0;  // by sixteen elements
#pragma unroll
    for (int s = 0; s < STEPS; ++s)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float& x = v[r][s][j];
        x = scale.finite ? x : 0;
        const float once = x * scale.factor1;
        lost += lost_units(x, once * scale.factor2 * (1 / LOST_UNIT));
        x = moderate ? x : once;
      }
    if (!moderate) factor[r] = scale.factor2, back[r] = 1;
    if (lost != 0) atomicAdd(&head.lost[row], static_cast<unsigned long long>(lost));
  }
}

}  // namespace tiled
