// tall's sums in fp32: a warp's strip as thread tiles, a lane's of every eighth row and every
// fourth vector of four columns, each element a chain of multiply-adds.
//
//     rows, A along k: lane / 4 + 8 r          columns: 16 v + 4 (lane % 4) + 0..3
//           A along m: 4 (lane / 4) + 0..3 of every 32
//
// Rows are read by vectors of four k, or four rows; the panel's by vectors of four columns, which
// eight lanes share.
#pragma once

#include "cuda/engine/tall/place.cuh"

namespace tiled {

template <typename Tile, bool ALONG_M>
class TallChains {
 public:
  __device__ __forceinline__ void clear() { tiled::clear(chain_); }

  // K's next `ks` of the strip in `stage`.
  __device__ __forceinline__ void multiply(uint32_t stage, uint32_t panel, uint32_t pitch, int ks) {
    const int lane = lane_anew();
    panel += column(lane) * 4;
    int k = 0;
    if constexpr (ALONG_M) {
#pragma unroll 2
      for (; k < ks; ++k) {
        float a[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r += 4) load_four(a + r, stage + k * LINE + row(lane, r) * 4);
        multiply_one(a, panel + k * pitch);
      }
    } else {
#pragma unroll 1
      for (; k + 4 <= ks; k += 4) {
        float a[ROWS][4];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) load_four(a[r], stage + row(lane, r) * LINE + k * 4);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float of_k[ROWS];
#pragma unroll
          for (int r = 0; r < ROWS; ++r) of_k[r] = a[r][i];
          multiply_one(of_k, panel + (k + i) * pitch);
        }
      }
      multiply_rest(lane, stage, panel, pitch, k, ks, [](int) { return 0u; });
    }
  }

  // The same of lines that begin shift(line) bytes later.
  template <typename Shift>
  __device__ __forceinline__ void multiply_shifted(uint32_t stage, uint32_t panel, uint32_t pitch,
                                                   int ks, Shift shift) {
    const int lane = lane_anew();
    multiply_rest(lane, stage, panel + column(lane) * 4, pitch, 0, ks, shift);
  }

  template <int THREADS>
  __device__ __forceinline__ void add_segment_to(void* totals, int64_t segment, int64_t segments) {
    add_segment<THREADS, 1>(totals, in_a_row(chain_), segment == 0, segment + 1 == segments);
  }

  template <bool PLAIN>
  __device__ __forceinline__ void store(const Problem& problem, const StripPlace& place) {
    const int lane = lane_anew();
    // A lane's rows along m are adjacent, so that a store's pieces of rows of C are apart.
    // A row of one vector is whole, and a wide one's pieces are
    // (docs/decisions/030).
    const bool leaves_in_pieces = ALONG_M && problem.n > 4 && problem.n <= 32;
    const auto spot = [&](int v) -> Spot {
      return {place.row0 + row(lane, v / VECTORS), place.column0 + v % VECTORS * 16 + column(lane)};
    };
    auto& sums = in_a_row(chain_);
    if (ALONG_M && problem.c.row_stride == 1 && problem.c.alignment == 16) {
      if (!PLAIN && !leaves_sums(problem.epilogue))
        finish_in_place<float, 4>(problem, place.entry, sums, spot);
      store_along_m(problem, place, lane);
    } else if ((leaves_in_pieces || problem.c.alignment < 16) &&
               is_stretch(problem, place.entry, Tile::BLOCK_N, 4)) {
      if (!PLAIN && !leaves_sums(problem.epilogue))
        finish_in_place<float, 4>(problem, place.entry, sums, spot);
      store_stretches(problem, place, lane);
    } else {
      store_thread_tile<float, 4>(problem, place.entry, sums, spot);
    }
  }

 private:
  static constexpr int ROWS = Tile::ROWS / 8, VECTORS = Tile::BLOCK_N / 16;  // of a lane
  static constexpr uint32_t LINE = Tile::pitch(ALONG_M, false);              // bytes

  static __device__ __forceinline__ int row(int lane, int r) {
    return ALONG_M ? r / 4 * 32 + lane / 4 * 4 + r % 4 : lane / 4 + r * 8;
  }
  static __device__ __forceinline__ int column(int lane) { return lane % 4 * 4; }

  static __device__ __forceinline__ void load_four(float* to, uint32_t at) {
    const uint4 v = ptx::load_shared_v4(at);
    to[0] = __uint_as_float(v.x), to[1] = __uint_as_float(v.y);
    to[2] = __uint_as_float(v.z), to[3] = __uint_as_float(v.w);
  }

  // One k, of which the panel's row is at `panel`.
  __device__ __forceinline__ void multiply_one(const float (&a)[ROWS], uint32_t panel) {
    float b[4 * VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) load_four(b + 4 * v, panel + v * 64);
    multiply_thread_tiles<4 * VECTORS>(a, b, chain_);
  }

  template <typename Shift>
  __device__ __forceinline__ void multiply_rest(int lane, uint32_t stage, uint32_t panel,
                                                uint32_t pitch, int k, int ks, Shift shift) {
    uint32_t at[ROWS];
    if (k >= ks) return;
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
      at[r] =
          ALONG_M ? stage + row(lane, r) * 4 : stage + row(lane, r) * LINE + shift(row(lane, r));
#pragma unroll 1
    for (; k < ks; ++k) {
      const uint32_t further = ALONG_M ? k * LINE + shift(k) : k * 4;
      float a[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; ++r) a[r] = __uint_as_float(ptx::load_shared_u32(at[r] + further));
      multiply_one(a, panel + k * pitch);
    }
  }

  // C along m: four rows of a column at a time.
  __device__ __forceinline__ void store_along_m(const Problem& problem, const StripPlace& place,
                                                int lane) {
    float* const c = static_cast<float*>(problem.c.data) + place.entry * problem.c.batch_stride;
#pragma unroll
    for (int j = 0; j < 4 * VECTORS; ++j) {
      const int64_t at = place.column0 + j / 4 * 16 + column(lane) + j % 4;
      if (at >= problem.n) continue;
      float* const of_column = c + at * problem.c.col_stride;
#pragma unroll
      for (int r = 0; r < ROWS; r += 4) {
        const int64_t first = place.row0 + row(lane, r);
        if (first + 4 <= problem.m) {
          *reinterpret_cast<float4*>(of_column + first) =
              make_float4(chain_[r][j], chain_[r + 1][j], chain_[r + 2][j], chain_[r + 3][j]);
        } else {
#pragma unroll
          for (int i = 0; i < 3; ++i)
            if (first + i < problem.m) of_column[first + i] = chain_[r + i][j];
        }
      }
    }
  }

  // Eight rows at a time, as a stretch of C: one of every lane's, or four of eight lanes'.
  __device__ __forceinline__ void store_stretches(const Problem& problem, const StripPlace& place,
                                                  int lane) {
    float* const c = static_cast<float*>(problem.c.data) + place.entry * problem.c.batch_stride;
    const int columns = static_cast<int>(problem.n), group = lane / 4;
    const auto put = [&](int row, const float (&values)[4 * VECTORS]) {
#pragma unroll
      for (int j = 0; j < 4 * VECTORS; ++j) {
        const int at = j / 4 * 16 + column(lane) + j % 4;
        if (at < columns)
          ptx::store_shared_u32(place.room + (row * columns + at) * 4, __float_as_uint(values[j]));
      }
    };
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const int64_t first = place.row0 + 8 * r;
      if constexpr (!ALONG_M) {
        put(group, chain_[r]);
      } else if (group / 2 == r % 4) {
#pragma unroll
        for (int i = 0; i < 4; ++i) put(group % 2 * 4 + i, chain_[r / 4 * 4 + i]);
      }
      __syncwarp();
      const int rows = static_cast<int>(min(problem.m - first, int64_t{8}));
      write_stretch<float>(place.room, c + first * columns, rows * columns);
      __syncwarp();
    }
  }

  float chain_[ROWS][4 * VECTORS];
};

}  // namespace tiled
