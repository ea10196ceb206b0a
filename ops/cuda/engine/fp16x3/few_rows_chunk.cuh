// A warp of few_rows.cu takes a chunk: 32 rows of W by 64 of K, from memory to terms.
#pragma once

#include <cuda_fp16.h>

#include "cuda/engine/fp16x3/fp16_parts.cuh"
#include "cuda/engine/fp16x3/fp16x3.h"
#include "cuda/ptx/mma.cuh"

namespace tiled {

constexpr int ROWS = FEW_ROWS_BLOCK_P;  // of W, a block; a lane has four of them
constexpr int CHUNK = FEW_ROWS_CHUNK;   // of K
constexpr int STEPS = CHUNK / 16;
static_assert(ROWS == 32 && CHUNK == 64 && SEGMENT_K % CHUNK == 0);

// A lane's elements, four rows by STEPS times four neighbours in k: row r is 8 r + g of the block,
// or, where W's rows lie beside each other, 4 g + r, which are one load.
using Chunk = float[4][STEPS][4];
// The same in fp16 parts as mma has them, [hi, lo][rows 0 and 1, or 2 and 3][step].
using Fragments = uint32_t[2][2][STEPS][4];

template <bool BESIDE>
__device__ __forceinline__ int row_of(int r) {
  const int g = threadIdx.x % 32 / 4;
  return BESIDE ? 4 * g + r : 8 * r + g;
}

// The elements that a lane reads of W in one batch entry: from its first element, of its block's
// `rows` that exist; so many chunks from the first on by vectors.
struct Share {
  const float* w;
  int rows, vector_chunks;
};

template <bool BESIDE>
__device__ __forceinline__ void load(Chunk& v, const Fp16x3FewRowsArguments& args, const Share& of,
                                     int chunk) {
  constexpr int APART = BESIDE ? 1 : 8;  // rows
  const float* const w = of.w + int64_t{chunk} * CHUNK * (BESIDE ? args.w_k : 1);
  if (chunk < of.vector_chunks) {
#pragma unroll
    for (int i = 0; i < 4 * STEPS; ++i) {
      const float4 x = __ldcs(reinterpret_cast<const float4*>(
          BESIDE ? w + (i / 4 * 16 + i % 4) * args.w_k
                 : w + i / STEPS * APART * args.w_row + i % STEPS * 16));
      if constexpr (BESIDE) {
        v[0][i / 4][i % 4] = x.x, v[1][i / 4][i % 4] = x.y;
        v[2][i / 4][i % 4] = x.z, v[3][i / 4][i % 4] = x.w;
      } else {
        float (&to)[4] = v[i / STEPS][i % STEPS];
        to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
      }
    }
    return;
  }
  const int64_t first = int64_t{chunk} * CHUNK, k = first + threadIdx.x % 4 * 4;
#pragma unroll
  for (int s = 0; s < STEPS; ++s)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r)
        v[r][s][j] = row_of<BESIDE>(r) < of.rows && k + 16 * s + j < args.k
                         ? of.w[r * APART * args.w_row + (first + 16 * s + j) * args.w_k]
                         : 0;
}

// By one factor each row.
__device__ __forceinline__ void split_chunk(Fragments& parts, const Chunk& v,
                                            const float (&factor)[4]) {
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int i = 0; i < 2 * STEPS; ++i) {
      const float* two = v[r][i / 2] + i % 2 * 2;
      const PairParts pair = split_plain(two[0] * factor[r], two[1] * factor[r]);
      parts[0][r / 2][i / 2][r % 2 + i % 2 * 2] = reinterpret_cast<const uint32_t&>(pair.hi);
      parts[1][r / 2][i / 2][r % 2 + i % 2 * 2] = reinterpret_cast<const uint32_t&>(pair.lo);
    }
}

// Terms of a chunk, [x][ROWS and some more, so that lanes meet different banks].
constexpr int PITCH = FEW_ROWS_PITCH;

// terms(column) is the first slot of a row of X, and `slot` so many floats behind it the chunk's;
// `x` is this lane's part of the chunk's first tile.
template <bool W_IS_A, bool BESIDE, typename Terms>
__device__ __forceinline__ void multiply(const Terms& terms, int slot, const Fragments& w,
                                         const float (&back)[4], int x_rows, const uint4* x) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int step = (x_rows + 7) / 8 * 32;
#pragma unroll 1
  for (int first = 0; first < x_rows; first += 8, x += 32) {
    uint4 parts[STEPS];
#pragma unroll
    for (int s = 0; s < STEPS; ++s)
      parts[s] = first + g < x_rows ? __ldg(x + s * step) : make_uint4(0, 0, 0, 0);
    float main[2][4] = {}, cross[2][4] = {};
#pragma unroll
    for (int s = 0; s < STEPS; ++s)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t hi[2] = {parts[s].x, parts[s].y}, lo[2] = {parts[s].z, parts[s].w};
        ptx::mma(__half(), main[i], w[0][i][s], hi);
        // A's upper part first, as everywhere.
        if constexpr (W_IS_A) {
          ptx::mma(__half(), cross[i], w[0][i][s], lo);
          ptx::mma(__half(), cross[i], w[1][i][s], hi);
        } else {
          ptx::mma(__half(), cross[i], w[1][i][s], hi);
          ptx::mma(__half(), cross[i], w[0][i][s], lo);
        }
      }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int column = first + 2 * t + j;
      if (column >= x_rows) continue;
      float term[4];
#pragma unroll
      for (int r = 0; r < 4; ++r)
        term[r] =
            __fmaf_rn(cross[r / 2][r % 2 * 2 + j], 0x1p-11f, main[r / 2][r % 2 * 2 + j]) * back[r];
      float* const to = terms(column) + slot;
      if constexpr (BESIDE) {
        *reinterpret_cast<float4*>(to + 4 * g) = make_float4(term[0], term[1], term[2], term[3]);
      } else {
#pragma unroll
        for (int r = 0; r < 4; ++r) to[8 * r + g] = term[r];
      }
    }
  }
}

}  // namespace tiled
