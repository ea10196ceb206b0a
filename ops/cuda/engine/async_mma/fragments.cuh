// A warp's fragments of one part of a step, 32 bytes of k: A's are loaded again as soon as a row of
// tiles is done with them, B's beside those in use. Those of fp32 are rounded to tf32 where they
// are used, not where they are loaded, which would wait for them. On 7.5 a part is two steps of 8
// of k, of which each fragment's words hold one after the other.
#pragma once

#include "cuda/parts/arithmetic/signed_bytes.cuh"
#include "cuda/ptx/cvt.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/mma_k8.cuh"
#include "cuda/ptx/mma_s8.cuh"

namespace tiled {

// A and B are the kernel's operands; of the warp, TILES_M x TILES_N tiles of 16 x 8.
template <typename Tile, typename T, typename A, typename B>
class Fragments {
  static constexpr int TILES_M = Tile::WARP_M / 16, TILES_N = Tile::WARP_N / 8;

 public:
  __device__ __forceinline__ void load_a(uint32_t lane, int i, int part) {
    A::load(a_[i], lane, i, part);
  }

  // Loads the fragments of B that come while row i of tiles is multiplied, equally many in each
  // row.
  __device__ __forceinline__ void load_b_beside_row(uint32_t lane, int i, int part, int into) {
#pragma unroll
    for (int pair = i * TILES_N / 2 / TILES_M; pair < (i + 1) * TILES_N / 2 / TILES_M; ++pair) {
      uint32_t two[4];
      B::load(two, lane, pair, part);
#pragma unroll
      for (int v = 0; v < 4; ++v) b_[into][2 * pair + v / 2][v % 2] = two[v];
    }
  }

  __device__ __forceinline__ void load_first(uint32_t a_lane, uint32_t b_lane) {
#pragma unroll
    for (int i = 0; i < TILES_M; ++i) load_a(a_lane, i, 0);
#pragma unroll
    for (int i = 0; i < TILES_M; ++i) load_b_beside_row(b_lane, i, 0, 0);
  }

  __device__ __forceinline__ void multiply_row(Accumulator<T> (&chain)[TILES_N][4], int i, int of) {
    round(a_[i]);
    if (i == 0) {
#pragma unroll
      for (int j = 0; j < TILES_N; ++j) round(b_[of][j]);
    }
    if constexpr (Tile::SM75) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int j = 0; j < TILES_N; ++j)
          ptx::mma_k8(T(), chain[j], a_[i][2 * half], a_[i][2 * half + 1], b_[of][j][half]);
    } else {
#pragma unroll
      for (int column = 0; column < TILES_N; ++column) {
        // Every other row runs backwards, and so begins with the fragment at hand.
        const int j = i % 2 == 0 ? column : TILES_N - 1 - column;
        ptx::mma(T(), chain[j], a_[i], b_[of][j]);
      }
    }
  }

 private:
  template <int WORDS>
  static __device__ __forceinline__ void round(uint32_t (&words)[WORDS]) {
    if constexpr (std::is_same_v<T, float>) {
#pragma unroll
      for (int i = 0; i < WORDS; ++i)
        words[i] = __float_as_uint(ptx::round_to_tf32(__uint_as_float(words[i])));
    }
  }

  uint32_t a_[TILES_M][4], b_[2][TILES_N][2];
};

}  // namespace tiled
