// A finished tile's way to C, for the kernels of rung fp16x3: through a few kilobytes of shared
// memory of each warp, so that neighbours in memory leave together whatever C's pitch is.
#pragma once

#include <type_traits>

#include "cuda/ptx/shared.cuh"
#include "cuda/rungs/9_fp16x3/fp16x3.h"

namespace tiled {

// A warp's 16 rows of the tile, 32 columns at a time, or as many as there are.
constexpr int STORE_ROWS = 16, STORE_COLUMNS = 32;
static_assert(STORE_ROWS * STORE_COLUMNS * 4 == FP16X3_STORE_BYTES);

// Where an element of these lies: 16 bytes swap places so that lanes that write two neighbours of
// different rows meet different banks.
__device__ __forceinline__ uint32_t staged(uint32_t staging, int row, int column) {
  return staging + row * (STORE_COLUMNS * 4) + ((column / 4) ^ (row % 4 * 2)) * 16 + column % 4 * 4;
}

// An element from its scaled sum, a zero being positive. PLAIN: is_plain() of both; else `unsure`
// tells whether the guard computes it again.
template <bool PLAIN>
__device__ __forceinline__ float unscaled(float sum, const RowScale& row, const RowScale& column,
                                          float tolerance, bool& unsure) {
  const int scale = row.exponent + column.exponent;
  if constexpr (PLAIN) {
    return __fadd_rn(__fmul_rn(sum, __int_as_float((127 - scale) << 23)), 0);
  } else {
    const float c = __fadd_rn(ldexpf(sum, -scale), 0);
    unsure |= is_unsure(row.lost + column.lost, scale, c, tolerance);
    return c;
  }
}

// Whether nothing is lost, and with another such row or column one factor is a normal number that
// leads to finite elements: their scaled sums are below 2^30 K, K below 2^31.
__device__ __forceinline__ bool is_plain(const RowScale& scale) {
  return scale.exponent >= -33 && scale.exponent <= 60 && scale.lost == 0;
}

__device__ __forceinline__ RowScale from_lane(const RowScale& scale, int lane) {
  return {__shfl_sync(~0u, scale.exponent, lane), __shfl_sync(~0u, scale.lost, lane)};
}

// C = sum / 2^scale; squares with an element that lost too much are listed for the guard. `sums`
// are those of a warpgroup's thread, as wgmma.cuh has D; (p0, q0) is where its 64 rows begin;
// `staging` is this warp's FP16X3_STORE_BYTES in the shared window.
template <int SUMS>
__device__ __forceinline__ void store_sums(const Fp16x3Arguments& args, uint32_t staging,
                                           const float (&sums)[SUMS], int p0, int q0, int batch) {
  constexpr int COLUMNS = 2 * SUMS < STORE_COLUMNS ? 2 * SUMS : STORE_COLUMNS;
  constexpr int CHUNKS = 2 * SUMS / COLUMNS;
  const HopperArguments& grid = args.grid;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int row0 = p0 + threadIdx.x % 128 / 32 * STORE_ROWS;
  // Of row lane % 16, and of column lane % COLUMNS of each chunk; beyond the end any will do.
  const RowScale row =
      args.p_scales[batch * args.p_scales_batch + min(row0 + lane % STORE_ROWS, grid.p - 1)];
  RowScale columns[CHUNKS];
#pragma unroll
  for (int i = 0; i < CHUNKS; ++i)
    columns[i] = args.q_scales[batch * args.q_scales_batch +
                               min(q0 + i * COLUMNS + lane % COLUMNS, grid.q - 1)];
  float* c = static_cast<float*>(grid.c) + batch * grid.c_batch + row0 * grid.c_p;
  const bool along_q = grid.c_q == 1;
  const bool vectors = along_q && grid.c_p % 4 == 0 && grid.c_batch % 4 == 0 &&
                       reinterpret_cast<uintptr_t>(grid.c) % 16 == 0;

#pragma unroll
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    const int column0 = q0 + chunk * COLUMNS;
    __syncwarp();
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        ptx::store_shared_v2(staged(staging, g + 8 * half, 8 * j + 2 * t),
                             sums[COLUMNS / 2 * chunk + 4 * j + 2 * half],
                             sums[COLUMNS / 2 * chunk + 4 * j + 2 * half + 1]);
    __syncwarp();
    const RowScale column = columns[chunk];
    bool unsure = false;
    const auto put = [&](auto plain) {
      constexpr bool PLAIN = decltype(plain)::value;
      const bool whole = vectors && column0 + COLUMNS <= grid.q;
      if (whole) {  // four columns a lane
        constexpr int LANES = COLUMNS / 4;
        const int q = lane % LANES * 4;
        RowScale of_q[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) of_q[i] = from_lane(column, q + i);
#pragma unroll
        for (int i = 0; i < STORE_ROWS; i += 32 / LANES) {
          const int p = i + lane / LANES;
          const RowScale of_p = from_lane(row, p);
          const uint4 x = ptx::load_shared_v4(staged(staging, p, q));
          if (row0 + p >= grid.p) continue;
          const float tolerance = args.tolerance;
          const float4 y =
              make_float4(unscaled<PLAIN>(__uint_as_float(x.x), of_p, of_q[0], tolerance, unsure),
                          unscaled<PLAIN>(__uint_as_float(x.y), of_p, of_q[1], tolerance, unsure),
                          unscaled<PLAIN>(__uint_as_float(x.z), of_p, of_q[2], tolerance, unsure),
                          unscaled<PLAIN>(__uint_as_float(x.w), of_p, of_q[3], tolerance, unsure));
          *reinterpret_cast<float4*>(c + p * grid.c_p + column0 + q) = y;
        }
        return;
      }
      // Rows, or, where C lies along p, two columns of 16.
#pragma unroll 4
      for (int i = 0; i < STORE_ROWS * COLUMNS / 32; ++i) {
        const int p = along_q ? 32 / COLUMNS * i + lane / COLUMNS : lane % STORE_ROWS;
        const int q = along_q ? lane % COLUMNS : 2 * i + lane / 16;
        const RowScale of_p = from_lane(row, p), of_q = from_lane(column, q);
        const uint32_t x = ptx::load_shared_u32(staged(staging, p, q));
        if (row0 + p >= grid.p || column0 + q >= grid.q) continue;
        c[p * grid.c_p + (column0 + q) * grid.c_q] =
            unscaled<PLAIN>(__uint_as_float(x), of_p, of_q, args.tolerance, unsure);
      }
    };
    if (__all_sync(~0u, is_plain(row) && is_plain(column)))
      put(std::true_type());
    else
      put(std::false_type());
    if (__any_sync(~0u, unsure) && lane == 0) {
      const uint32_t p = p0 / GUARD_SQUARE, q = column0 / GUARD_SQUARE;
      list_square(args.guard, batch, args.exchanged ? q : p, args.exchanged ? p : q);
    }
  }
}

}  // namespace tiled
