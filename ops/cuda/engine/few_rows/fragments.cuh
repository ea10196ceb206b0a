// How a warp of rung few_rows takes fp64 from a stage to the registers of mma.sync: eight elements
// of K at a time, one by one.
#pragma once

#include "cuda/engine/few_rows/tiles.h"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/opaque.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/swizzle.cuh"

namespace tiled {

// Addresses are computed once and kept: anew in every step, they would stand between the steps of
// the chain.
template <typename Tile, bool P_MN_MAJOR, bool Q_MN_MAJOR>
class FewRowsDoubles {
 public:
  static constexpr int STEPS = Tile::BOXES * 128 / 64;  // in a stage

  // Which of eight rows of P, or columns of Q, is the instruction's i-th.
  // The even ones first: half a warp then loads from 32 different banks.
  static __device__ __forceinline__ int place_along_k(int i) { return i % 4 * 2 + i / 4; }
  // Along m or n that would do harm.
  static __device__ __forceinline__ int p_place(int i) { return P_MN_MAJOR ? i : place_along_k(i); }
  static __device__ __forceinline__ int q_place(int i) { return Q_MN_MAJOR ? i : place_along_k(i); }

  // Lane g * 4 + t has of P the g-th rows of both eights, of Q the g-th column, and of K the
  // elements t and t + 4 of a step.
  __device__ __forceinline__ void set_addresses(int lane, int band, int column) {
    constexpr uint32_t Q_AT = Tile::BOXES * Tile::P_BOX;  // bytes, in a stage
    const int row = p_place(lane / 4), t = lane % 4;
    column += q_place(lane / 4);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        // Along K: of step i, the first eight. Along m or n: of any step, the i-th eight.
        p_at[i][half] =
            P_MN_MAJOR ? band * 16 * 128 +  // a band is as wide as a box
                             ptx::swizzled<128>((t + half * 4) * 128 + (row + i * 8) * 8)
                       : ptx::swizzled<128>((band * 16 + row) * 128 + i * 64 + half * 32 + t * 8);
        q_at[i][half] =
            Q_AT + (Q_MN_MAJOR ? column / STRIP * (16 * ROW) +  // boxes of 16 of k
                                     ptx::swizzled<ROW>((t + half * 4) * ROW +
                                                        (column % STRIP + i * 8) * 8)
                               : ptx::swizzled<128>(column * 128 + i * 64 + half * 32 + t * 8));
        ptx::opaque(p_at[i][half], q_at[i][half]);
      }
  }

  __device__ __forceinline__ void fetch(int step, uint32_t stage) {
    const uint32_t p_box = stage + step / 2 * Tile::P_BOX, q_box = stage + step / 2 * Tile::Q_BOX;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int eight = 0; eight < 2; ++eight)
        p[step][half * 2 + eight] =
            ptx::load_shared_f64(P_MN_MAJOR ? p_box + p_at[eight][half] + step % 2 * 8 * 128
                                            : p_box + p_at[step % 2][half] + eight * 8 * 128);
#pragma unroll
      for (int eight = 0; eight < Tile::EIGHTS; ++eight)
        q[step][eight][half] = ptx::load_shared_f64(
            Q_MN_MAJOR ? q_box + q_at[eight % 2][half] + eight / 2 * 16 * ROW + step % 2 * 8 * ROW
                       : q_box + q_at[step % 2][half] + eight * 8 * 128);
    }
  }

  double p[STEPS][4], q[STEPS][Tile::EIGHTS][2];

 private:
  // For a Q along m or n: the number of adjacent columns, and their bytes.
  static constexpr int STRIP = few_rows_q_strip(Tile::BLOCK_Q, 8), ROW = STRIP * 8;
  uint32_t p_at[2][2], q_at[2][2];
};

}  // namespace tiled
