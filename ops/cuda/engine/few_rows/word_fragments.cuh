// How a warp of rung few_rows takes 16-bit elements from a stage to the registers of mma.sync, 32
// bytes of K at a time: by ldmatrix, which transposes a weight that is contiguous along m or n on
// its way.
#pragma once

#include "cuda/engine/few_rows/tiles.h"
#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/opaque.cuh"
#include "cuda/ptx/swizzle.cuh"

namespace tiled {

// The stage's boxes: P along k [rows][64 k], or along m or n [64 k][BLOCK_P], one strip; Q
// [columns] [64 k]. An ldmatrix brings four matrices of 8 x 8:
//
//     P, a step          k 0-7  8-15       Q, a step of a pair of eights     of a last, odd eight
//         rows 0-7         0     2             columns 0-7       0  1          two steps:  0 1 2 3
//         rows 8-15        1     3             columns 8-15      2  3
//
// Addresses are computed once and kept, but for the stage's begin.
template <typename Tile, bool P_MN_MAJOR>
class FewRowsWords {
 public:
  static constexpr int STEPS = Tile::BOXES * 4;  // of 32 bytes of K, in a stage

  // `q_at`: bytes from a stage's begin to Q's boxes; `p_box`: of a box of P along k, whose tiles
  // may be lower than BLOCK_P.
  __device__ __forceinline__ void set_addresses(int lane, int band, int column, uint32_t q_at,
                                                uint32_t p_box) {
    const int matrix = lane / 8, row = lane % 8;
    if constexpr (P_MN_MAJOR) {
      // A row of the matrix is one k. Of 16 steps on, the swizzle is the same.
      const int k = matrix / 2 * 8 + row, p = band * 16 + matrix % 2 * 8;
      p_at[0] = ptx::swizzled<P_ROW>(k * P_ROW + p * 2);
      ptx::opaque(p_at[0]);
    } else {
#pragma unroll
      for (int step = 0; step < STEPS; ++step) {
        const int p = band * 16 + matrix % 2 * 8 + row;
        p_at[step] =
            step / 4 * p_box + ptx::swizzled<128>(p * 128 + step % 4 * 32 + matrix / 2 * 16);
        ptx::opaque(p_at[step]);
      }
    }
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const int q = column + matrix / 2 * 8 + row;
      pair_at[step] = q_at + ptx::swizzled<128>(q * 128 + step * 32 + matrix % 2 * 16);
      ptx::opaque(pair_at[step]);
    }
#pragma unroll
    for (int two = 0; two < 2; ++two) {
      const int q = column + PAIRS * 16 + row;
      odd_at[two] = q_at + ptx::swizzled<128>(q * 128 + two * 64 + matrix * 16);
      ptx::opaque(odd_at[two]);
    }
  }

  // Fills the registers of a step; of an odd eight, with an even step, those of two.
  __device__ __forceinline__ void fetch(int step, uint32_t stage) {
    if constexpr (P_MN_MAJOR)
      ptx::ldmatrix_x4_trans(p[step],
                             stage + p_at[0] + (step / 4 * Tile::P_BOX + step % 4 * 16 * P_ROW));
    else
      ptx::ldmatrix_x4(p[step], stage + p_at[step]);
    const uint32_t box = step / 4 * Tile::Q_BOX;
#pragma unroll
    for (int pair = 0; pair < PAIRS; ++pair) {
      uint32_t four[4];
      ptx::ldmatrix_x4(four, stage + pair_at[step % 4] + (box + pair * 16 * 128));
      put(q[step][pair * 2], four[0], four[1]), put(q[step][pair * 2 + 1], four[2], four[3]);
    }
    if (ODD && step % 2 == 0) {
      uint32_t four[4];
      ptx::ldmatrix_x4(four, stage + odd_at[step % 4 / 2] + box);
      put(q[step][PAIRS * 2], four[0], four[1]), put(q[step + 1][PAIRS * 2], four[2], four[3]);
    }
  }

  // Bits that are known only when all loads of a step are there: one register of each.
  __device__ __forceinline__ uint32_t bits_of(int step) const {
    uint32_t bits = p[step][0];
#pragma unroll
    for (int eight = 0; eight < Tile::EIGHTS; eight += 2) bits |= q[step][eight][0];
    return bits;
  }

  uint32_t p[STEPS][4], q[STEPS][Tile::EIGHTS][2];

 private:
  static constexpr int PAIRS = Tile::EIGHTS / 2;  // of eights
  static constexpr bool ODD = Tile::EIGHTS % 2 == 1;
  static constexpr int P_ROW = Tile::BLOCK_P * 2;  // bytes of a row of a strip

  static __device__ __forceinline__ void put(uint32_t (&to)[2], uint32_t a, uint32_t b) {
    to[0] = a, to[1] = b;
  }

  uint32_t p_at[P_MN_MAJOR ? 1 : STEPS], pair_at[4], odd_at[2];
};

}  // namespace tiled
