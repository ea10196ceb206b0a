// A finished tile's way to C, for the kernels of rung fp16x3: through a few kilobytes of shared
// memory of each warp, so that neighbours in memory leave together whatever C's pitch is. What is
// computed again is decided here, while the sum is at hand, and marked for the guard.
#pragma once

#include <type_traits>

#include "cuda/engine/fp16x3/fp16x3.h"
#include "cuda/engine/fp16x3/guard_marks.cuh"
#include "cuda/parts/arithmetic/warp_reduce.cuh"
#include "cuda/parts/epilogue/finish_accumulators.cuh"
#include "cuda/ptx/shared.cuh"

namespace tiled {

// A warp's 16 rows of the tile, 32 columns at a time, or as many as there are.
constexpr int STORE_ROWS = 16, STORE_COLUMNS = 32;
static_assert(STORE_ROWS * STORE_COLUMNS * 4 == FP16X3_STORE_BYTES);

// Where an element of these lies: 16 bytes swap places so that lanes that write two neighbours of
// different rows meet different banks.
__device__ __forceinline__ uint32_t staged(uint32_t staging, int row, int column) {
  return staging + row * (STORE_COLUMNS * 4) + ((column / 4) ^ (row % 4 * 2)) * 16 + column % 4 * 4;
}

// An element from its scaled sum, a zero being positive. PLAIN: is_plain() of both; else bit i of
// `unsure` tells whether the guard computes it again.
template <bool PLAIN>
__device__ __forceinline__ float unscaled(float sum, const RowScale& row, const RowScale& column,
                                          float tolerance, uint32_t& unsure, int i) {
  const int scale = row.exponent + column.exponent;
  if constexpr (PLAIN) {
    return __fadd_rn(__fmul_rn(sum, __int_as_float((127 - scale) << 23)), 0);
  } else {
    const float c = __fadd_rn(ldexpf(sum, -scale), 0);
    unsure |= uint32_t{is_unsure(row.lost + column.lost, scale, c, tolerance)} << i;
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

// A chunk's sums, as a lane has them from wgmma, to where the warp reads them by rows.
template <int COLUMNS>
__device__ __forceinline__ void stage(uint32_t staging, const float* sums) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  __syncwarp();
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      ptx::store_shared_v2(staged(staging, g + 8 * half, 8 * j + 2 * t), sums[4 * j + 2 * half],
                           sums[4 * j + 2 * half + 1]);
  __syncwarp();
}

// Where element i of a lane is in a chunk: four neighbours of a row, and so on in the rows below;
// else one element of each row, or, where C is contiguous along p, two columns of 16.
template <int COLUMNS>
struct Fours {
  static constexpr int LANES = COLUMNS / 4;  // of a row
  static constexpr int TURNS = STORE_ROWS / (32 / LANES);
  __device__ __forceinline__ int row(int i) const {
    return i / 4 * (32 / LANES) + static_cast<int>(threadIdx.x) % 32 / LANES;
  }
  __device__ __forceinline__ int column(int i) const {
    return static_cast<int>(threadIdx.x) % LANES * 4 + i % 4;
  }
};
template <int COLUMNS>
struct Ones {
  static constexpr int TURNS = STORE_ROWS * COLUMNS / 32;
  bool along_q;
  __device__ __forceinline__ int row(int i) const {
    const int lane = threadIdx.x % 32;
    return along_q ? 32 / COLUMNS * i + lane / COLUMNS : lane % STORE_ROWS;
  }
  __device__ __forceinline__ int column(int i) const {
    const int lane = threadIdx.x % 32;
    return along_q ? lane % COLUMNS : 2 * i + lane / 16;
  }
};

// A block's sums: the part of the planes' K that they are over; where they end along P and Q;
// how much of one may be lost; and where the guard knows them, by C's own rows, columns and batch
// entry.
struct AllOfC {
  const Fp16x3Arguments& args;
  __device__ __forceinline__ int first_k() const { return 0; }
  __device__ __forceinline__ int k() const { return args.grid.k; }
  __device__ __forceinline__ int p() const { return args.grid.p; }
  __device__ __forceinline__ int q() const { return args.grid.q; }
  __device__ __forceinline__ float tolerance() const { return args.tolerance; }
  __device__ __forceinline__ bool may_begin_vectors(int) const { return true; }
  __device__ __forceinline__ int marked_p(int p) const { return p; }
  __device__ __forceinline__ int marked_q(int q) const { return q; }
  __device__ __forceinline__ int sheet(int batch) const { return batch; }
};

// Marks elements of the chunk that begins at (row0, column0): those of which a lane has the bit in
// `unsure`. It happens rarely, and takes its time.
template <int COLUMNS, typename Places, typename Where>
__device__ __forceinline__ void mark(const GuardList& list, uint32_t unsure, const Places& places,
                                     const Where& where, int batch, int row0, int column0) {
  if (!__any_sync(~0u, unsure != 0)) return;
  row0 = where.marked_p(row0), column0 = where.marked_q(column0);
  using Word = std::conditional_t<COLUMNS == 32, uint32_t, uint16_t>;
  static_assert(sizeof(Word) * 8 == COLUMNS && STORE_ROWS == MARKED_ROWS);
  const int lane = threadIdx.x % 32;
  uint32_t mine = 0;  // of row `lane`
#pragma unroll 1
  for (int row = 0; row < STORE_ROWS; ++row) {
    uint32_t word = 0;
#pragma unroll 1
    for (int i = 0; i < COLUMNS / 2; ++i)
      if (unsure >> i & 1 && places.row(i) == row) word |= 1u << places.column(i);
    word = warp_or(word);
    if (lane == row) mine = word;
  }
  const uint32_t square = square_of(list, where.sheet(batch), row0, column0);
  if (lane < STORE_ROWS)
    *reinterpret_cast<Word*>(marks_at(list, square, row0 + lane, column0)) =
        static_cast<Word>(mine);
  if (lane == 0) list_square(list, square, row0, column0, COLUMNS / MARKED_COLUMNS);
}

// The same as store_fp16x3_sums() where an epilogue is to be applied: its code stands here once, so
// the chunks go round. What the guard computes again is not stored, as C may be what it reads.
template <int COLUMNS, int SUMS, typename Where>
__device__ __forceinline__ void store_finished_sums(const Fp16x3Arguments& args, uint32_t staging,
                                                    const float (&sums)[SUMS], const RowScale& row,
                                                    int row0, int q0, int batch, bool vectors,
                                                    const Where& where) {
  const HopperArguments& grid = args.grid;
  const HopperOutput& out = grid.c();
  const Fours<COLUMNS> places;
  const float tolerance = where.tolerance();
  float values[SUMS];
#pragma unroll
  for (int i = 0; i < SUMS; ++i) values[i] = sums[i];
  go_round<COLUMNS / 2>(values, [&](int chunk, const float (&part)[COLUMNS / 2]) {
    const int column0 = q0 + chunk * COLUMNS;
    const RowScale column =
        args.q_scales[batch * args.q_scales_batch +
                      min(column0 + static_cast<int>(threadIdx.x) % COLUMNS, where.q() - 1)];
    stage<COLUMNS>(staging, part);
    uint32_t unsure = 0;
#pragma unroll 1
    for (int first = 0; first < 4 * Fours<COLUMNS>::TURNS; first += 4) {
      const int p = row0 + places.row(first), q = column0 + places.column(first);
      const int exist = p < where.p() ? where.q() - q : 0;
      const RowScale of_p = from_lane(row, places.row(first));
      const uint4 x = ptx::load_shared_v4(staged(staging, places.row(first), places.column(first)));
      float y[4] = {__uint_as_float(x.x), __uint_as_float(x.y), __uint_as_float(x.z),
                    __uint_as_float(x.w)};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const RowScale of_q = from_lane(column, places.column(first + j));
        if (j < exist) y[j] = unscaled<false>(y[j], of_p, of_q, tolerance, unsure, first + j);
      }
      if (exist <= 0) continue;
      finish_vector<float>(grid.epilogue, y, batch, p, q, where.q());
      float* c = static_cast<float*>(out.data) + batch * out.batch + p * out.p + q * out.q;
      if (vectors && exist >= 4 && (unsure >> first & 15) == 0) {
        *reinterpret_cast<float4*>(c) = make_float4(y[0], y[1], y[2], y[3]);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (j < exist && !(unsure >> (first + j) & 1)) c[j * out.q] = y[j];
      }
    }
    mark<COLUMNS>(args.guard, unsure, places, where, batch, row0, column0);
  });
}

// C = sum / 2^scale, or what the epilogue makes of it; elements that lost too much are marked for
// the guard. `sums` are those of a warp's thread, as wgmma.cuh has D; (row0, q0) is where the
// warp's 16 rows begin; `staging` is its FP16X3_STORE_BYTES in the shared window.
template <int SUMS, typename Where>
__device__ __forceinline__ void store_fp16x3_sums(const Fp16x3Arguments& args, uint32_t staging,
                                                  const float (&sums)[SUMS], int row0, int q0,
                                                  int batch, const Where& where) {
  constexpr int COLUMNS = 2 * SUMS < STORE_COLUMNS ? 2 * SUMS : STORE_COLUMNS;
  constexpr int CHUNKS = 2 * SUMS / COLUMNS;
  const HopperArguments& grid = args.grid;
  const HopperOutput& out = grid.c();
  const int lane = threadIdx.x % 32;
  // The scales of row lane % 16, and of column lane % COLUMNS of each chunk; beyond the end any
  // will do.
  const RowScale row =
      args.p_scales[batch * args.p_scales_batch + min(row0 + lane % STORE_ROWS, where.p() - 1)];
  const bool along_q = out.q == 1;
  const bool vectors = along_q && out.p % 4 == 0 && out.batch % 4 == 0 &&
                       reinterpret_cast<uintptr_t>(out.data) % 16 == 0 &&
                       where.may_begin_vectors(q0);
  if (grid.finishes) {
    store_finished_sums<COLUMNS>(args, staging, sums, row, row0, q0, batch, vectors, where);
    return;
  }
  RowScale columns[CHUNKS];
#pragma unroll
  for (int i = 0; i < CHUNKS; ++i)
    columns[i] = args.q_scales[batch * args.q_scales_batch +
                               min(q0 + i * COLUMNS + lane % COLUMNS, where.q() - 1)];
  float* c = static_cast<float*>(out.data) + batch * out.batch + row0 * out.p;

#pragma unroll
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    const int column0 = q0 + chunk * COLUMNS;
    stage<COLUMNS>(staging, sums + COLUMNS / 2 * chunk);
    const RowScale column = columns[chunk];
    const auto put = [&](auto plain) {
      constexpr bool PLAIN = decltype(plain)::value;
      const float tolerance = where.tolerance();
      uint32_t unsure = 0;
      if (vectors && column0 + COLUMNS <= where.q()) {
        const Fours<COLUMNS> places;
        const int q = places.column(0);
        RowScale of_q[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) of_q[i] = from_lane(column, q + i);
#pragma unroll
        for (int i = 0; i < 4 * Fours<COLUMNS>::TURNS; i += 4) {
          const int p = places.row(i);
          const RowScale of_p = from_lane(row, p);
          const uint4 x = ptx::load_shared_v4(staged(staging, p, q));
          if (row0 + p >= where.p()) continue;
          const auto of = [&](uint32_t sum, int j) {
            return unscaled<PLAIN>(__uint_as_float(sum), of_p, of_q[j], tolerance, unsure, i + j);
          };
          *reinterpret_cast<float4*>(c + p * out.p + column0 + q) =
              make_float4(of(x.x, 0), of(x.y, 1), of(x.z, 2), of(x.w, 3));
        }
        if (!PLAIN) mark<COLUMNS>(args.guard, unsure, places, where, batch, row0, column0);
        return;
      }
      const Ones<COLUMNS> places{along_q};
#pragma unroll 4
      for (int i = 0; i < Ones<COLUMNS>::TURNS; ++i) {
        const int p = places.row(i), q = places.column(i);
        const RowScale of_p = from_lane(row, p), of_q = from_lane(column, q);
        const uint32_t x = ptx::load_shared_u32(staged(staging, p, q));
        if (row0 + p >= where.p() || column0 + q >= where.q()) continue;
        c[p * out.p + (column0 + q) * out.q] =
            unscaled<PLAIN>(__uint_as_float(x), of_p, of_q, tolerance, unsure, i);
      }
      if (!PLAIN) mark<COLUMNS>(args.guard, unsure, places, where, batch, row0, column0);
    };
    if (__all_sync(~0u, is_plain(row) && is_plain(column)))
      put(std::true_type());
    else
      put(std::false_type());
  }
}

}  // namespace tiled
