// tall's sums of 16-bit operands: a warp's strip as tiles of 16 x 8 of mma.sync, whose fragments
// ldmatrix loads from the warp's stage and from the panel, or, where lines are not aligned, the
// warp itself, element by element.
#pragma once

#include "cuda/engine/tall/place.cuh"
#include "cuda/parts/epilogue/write_rows.cuh"
#include "cuda/ptx/global.cuh"
#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/movmatrix.cuh"
#include "cuda/ptx/shared_u16.cuh"

namespace tiled {

template <typename Tile, typename T, bool ALONG_M, bool SWIZZLES>
class TallFragments {
 public:
  __device__ __forceinline__ void clear() { tiled::clear(chain_); }

  // K's next `ks` of the strip in `stage`, in steps of 16: what is beyond them there is zero.
  __device__ __forceinline__ void multiply(uint32_t stage, uint32_t panel, uint32_t pitch, int ks) {
    const int lane = lane_anew(), across = lane / 8 % 2 * 8 + lane % 8, along = lane / 16 * 8;
    // A lane's row of the four matrices of 8 x 8 of a fragment.
    const uint32_t in_stage =
        ALONG_M ? (along + lane % 8) * LINE + lane / 8 % 2 * 16 : across * LINE + along * 2;
    const uint32_t at = stage + (SWIZZLES ? ptx::swizzled<64>(in_stage) : in_stage);
    // So many bytes further along the line: 32 or none, of 64 that begin at a multiple.
    const auto along_line = [](uint32_t from, uint32_t bytes) {
      return SWIZZLES ? from ^ bytes : from + bytes;
    };
    run_steps<Tile::BLOCK_N == 32 ? 1 : 2>(panel, pitch, ks, [&](uint32_t (&a)[4], int i, int k) {
      if constexpr (ALONG_M)
        ptx::ldmatrix_x4_trans(a, along_line(at + k * LINE, i * 32));
      else
        ptx::ldmatrix_x4(a, along_line(at + i * 16 * LINE, k * 2));
    });
  }

  // The same of lines that begin shift(line) bytes later; what is beyond `ks` is anything.
  template <typename Shift>
  __device__ __forceinline__ void multiply_shifted(uint32_t stage, uint32_t panel, uint32_t pitch,
                                                   int ks, Shift shift) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    run_steps<1>(panel, pitch, ks, [&](uint32_t (&a)[4], int i, int k0) {
      const auto element = [&](int row, int k) -> uint32_t {
        const int line = ALONG_M ? k : row, place = ALONG_M ? row : k;
        return k < ks ? ptx::load_shared_u16(stage + line * LINE + shift(line) + place * 2) : 0;
      };
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        const int row = 16 * i + v % 2 * 8 + g, k = k0 + v / 2 * 8 + 2 * t;
        a[v] = element(row, k) | element(row, k + 1) << 16;
      }
    });
  }

  template <int THREADS>
  __device__ __forceinline__ void add_segment_to(void* totals, int64_t segment, int64_t segments) {
    add_segment<THREADS, 1>(totals, in_a_row(chain_), segment == 0, segment + 1 == segments);
  }

  template <bool PLAIN>
  __device__ __forceinline__ void store(const Problem& problem, const StripPlace& place) {
    const int lane = lane_anew(), g = lane / 4, t = lane % 4;
    const Result& c = problem.c;
    const bool by_columns = c.row_stride == 1 && c.alignment == 16;
    if constexpr (PLAIN)
      return by_columns ? store_columns(problem, place, g, t) : store_rows(problem, place, g, t);
    const auto spot = [&](int pair) -> Spot {
      const int half = pair % 2, j = pair / 2 % TILES_N, i = pair / 2 / TILES_N;
      return {place.row0 + 16 * i + 8 * half + g, place.column0 + 8 * j + 2 * t};
    };
    auto& sums = in_a_row(chain_);
    if (!leaves_sums(problem.epilogue)) finish_in_place<T, 2>(problem, place.entry, sums, spot);
    if (!stores_accumulator(problem)) {
      if (c.col_stride == 1 && c.alignment == 16 && problem.n % 8 == 0)
        return store_rows(problem, place, g, t);
      if (by_columns) return store_columns(problem, place, g, t);
      if (is_stretch(problem, place.entry, Tile::BLOCK_N, 2))
        return store_stretches(problem, place, g, t);
    }
#pragma unroll
    for (int pair = 0; pair < COUNT / 2; ++pair)
      if (const Spot at = spot(pair); at.row < problem.m)
        store_vector<T, 2>(problem, place.entry * c.batch_stride + at.row * c.row_stride, at.column,
                           sums + 2 * pair, stores_accumulator(problem));
  }

 private:
  static constexpr int TILES_M = Tile::ROWS / 16, TILES_N = Tile::BLOCK_N / 8;
  static constexpr int COUNT = TILES_M * TILES_N * 4;
  static constexpr uint32_t LINE = Tile::pitch(ALONG_M, SWIZZLES);  // bytes
  static_assert(TILES_M == 2, "a lane's eight rows of a column are one of four of a strip");

  template <int UNROLL, typename LoadA>
  __device__ __forceinline__ void run_steps(uint32_t panel, uint32_t pitch, int ks, LoadA load_a) {
    const int lane = lane_anew();
    const uint32_t b_at = panel + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 16;
#pragma unroll UNROLL
    for (int k = 0; k < ks; k += 16) {
      uint32_t a[TILES_M][4];
#pragma unroll
      for (int i = 0; i < TILES_M; ++i) load_a(a[i], i, k);
#pragma unroll
      for (int j = 0; j < TILES_N; j += 2) {
        uint32_t b[4];  // of two tiles
        ptx::ldmatrix_x4(b, b_at + k * 2 + j * 8 * pitch);
#pragma unroll
        for (int i = 0; i < TILES_M; ++i) {
          ptx::mma(T(), chain_[i][j], a[i], {b[0], b[1]});
          ptx::mma(T(), chain_[i][j + 1], a[i], {b[2], b[3]});
        }
      }
    }
  }

  __device__ __forceinline__ uint32_t packed(int i, int j, int half) const {
    return pack(T(), chain_[i][j][2 * half], chain_[i][j][2 * half + 1]);
  }

  // Each lane eight columns of a row: of the rows g and g + 8 and two tiles, four lanes have a
  // quarter each.
  __device__ __forceinline__ void store_rows(const Problem& problem, const StripPlace& place, int g,
                                             int t) const {
    T* const c = of_entry(problem, place);
    const int64_t first = place.column0 + t % 2 * 8;
#pragma unroll
    for (int i = 0; i < TILES_M; ++i) {
      const int64_t row = place.row0 + 16 * i + t / 2 * 8 + g;
      T* const to = c + row * problem.c.row_stride + first;
#pragma unroll
      for (int j = 0; j < TILES_N; j += 2) {
        uint32_t v[4] = {packed(i, j, 0), packed(i, j + 1, 0), packed(i, j, 1),
                         packed(i, j + 1, 1)};
        exchange_in_four(v);
        if (row < problem.m && first + 8 * j < problem.n)
          ptx::store_global_v4(to + 8 * j, make_uint4(v[0], v[1], v[2], v[3]));
      }
    }
  }

  // Each lane eight rows of a column: transposed, four lanes have all 32 of column g, by twos.
  __device__ __forceinline__ void store_columns(const Problem& problem, const StripPlace& place,
                                                int g, int t) const {
    const int64_t row = place.row0 + 8 * t;
    const int exist = static_cast<int>(min(problem.m - row, int64_t{8}));
    T* const c = of_entry(problem, place) + row;
#pragma unroll
    for (int j = 0; j < TILES_N; ++j) {
      uint32_t v[4];
#pragma unroll
      for (int h = 0; h < 4; ++h) v[h] = ptx::movmatrix_trans(packed(h / 2, j, h % 2));
      exchange_in_four(v);
      const int64_t column = place.column0 + 8 * j + g;
      if (column >= problem.n) continue;
      T* const to = c + column * problem.c.col_stride;
      const uint4 eight = make_uint4(v[0], v[1], v[2], v[3]);
      if (exist == 8)
        ptx::store_global_v4(to, eight);
      else if (exist > 0)
        write_first(reinterpret_cast<uint16_t*>(to), eight, exist);
    }
  }

  // 16 rows at a time, through shared memory, as a stretch of C.
  __device__ __forceinline__ void store_stretches(const Problem& problem, const StripPlace& place,
                                                  int g, int t) const {
    const int width = static_cast<int>(problem.n);
    T* const c = of_entry(problem, place);
#pragma unroll
    for (int i = 0; i < TILES_M; ++i) {
      const int64_t row0 = place.row0 + 16 * i;
      if (row0 >= problem.m) break;
#pragma unroll
      for (int j = 0; j < TILES_N; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = 8 * half + g, column = 8 * j + 2 * t;
          const uint32_t two = packed(i, j, half), at = place.room + (row * width + column) * 2;
          if (column < width) ptx::store_shared_u16(at, static_cast<uint16_t>(two));
          if (column + 1 < width) ptx::store_shared_u16(at + 2, static_cast<uint16_t>(two >> 16));
        }
      __syncwarp();
      const int rows = static_cast<int>(min(problem.m - row0, int64_t{16}));
      write_stretch<uint16_t>(place.room, c + row0 * width, rows * width);
      __syncwarp();
    }
  }

  static __device__ __forceinline__ T* of_entry(const Problem& problem, const StripPlace& place) {
    return static_cast<T*>(problem.c.data) + place.entry * problem.c.batch_stride;
  }

  float chain_[TILES_M][TILES_N][4];
};

}  // namespace tiled
