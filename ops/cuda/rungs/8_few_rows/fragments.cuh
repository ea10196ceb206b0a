// How a warp of rung few_rows takes its operands from a stage to the registers of mma.sync, step by
// step of K: 16 elements of 16 bits or 8 of tf32, by ldmatrix; 8 of fp64, one by one.
#pragma once

#include "cuda/ptx/forget.cuh"
#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/swizzle.cuh"

namespace tiled {

// EIGHTS of eight columns. Addresses are computed once and kept: anew in every step, they would
// stand between the steps of the chain.
template <typename Tile, typename T, bool P_MN_MAJOR, int ATOM>
class Fragments {
 public:
  using Word = uint32_t;
  using Sum = float;
  static constexpr int STEP_BYTES = 32;
  static constexpr int STEPS = Tile::BOXES * 128 / STEP_BYTES;  // in a stage

  // Which of eight rows of P, or columns of Q, is the instruction's i-th.
  static __device__ __forceinline__ int p_place(int i) { return i; }
  static __device__ __forceinline__ int q_place(int i) { return i; }

  // `q`: bytes from the stage's begin to Q's boxes; `column` is the warp's first.
  __device__ __forceinline__ void set_addresses(int lane, int band, uint32_t q, int column) {
    constexpr int ROW_BYTES = ATOM * 2;
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      // P: rows 0-7 and 8-15 of the first 16 bytes of K, then of the second.
      if constexpr (P_MN_MAJOR) {
        const int k = step * 16 + lane / 16 * 8 + lane % 8, mn = band * 16 + lane / 8 % 2 * 8;
        p_at[step] =
            mn / ATOM * ATOM * 128 + ptx::swizzled<ROW_BYTES>(k * ROW_BYTES + mn % ATOM * 2);
      } else {
        p_at[step] = ptx::swizzled<128>((band * 16 + lane % 16) * 128 + step * 32 + lane / 16 * 16);
      }
      // Q: both 16 bytes of K of eight columns, then of the next eight.
      const int row = column + (Tile::EIGHTS > 1 ? lane / 16 * 8 : 0) + lane % 8;
      q_at[step] = q + ptx::swizzled<128>(row * 128 + step * 32 + lane / 8 % 2 * 16);
      ptx::forget(p_at[step], q_at[step]);
    }
  }

  __device__ __forceinline__ void fetch(int step, uint32_t stage) {
    const uint32_t p_from = stage + p_at[step % 4] + step / 4 * Tile::P_BOX;
    const uint32_t q_from = stage + q_at[step % 4] + step / 4 * Tile::Q_BOX;
    if constexpr (P_MN_MAJOR)
      ptx::ldmatrix_x4_trans(p[step], p_from);
    else
      ptx::ldmatrix_x4(p[step], p_from);
    if constexpr (Tile::EIGHTS == 1) {
      ptx::ldmatrix_x2(q[step][0], q_from);
    } else {
#pragma unroll
      for (int eight = 0; eight < Tile::EIGHTS; eight += 2) {
        uint32_t two[4];
        ptx::ldmatrix_x4(two, q_from + eight * 8 * 128);
#pragma unroll
        for (int i = 0; i < 4; ++i) q[step][eight + i / 2][i % 2] = two[i];
      }
    }
  }

  Word p[STEPS][4], q[STEPS][Tile::EIGHTS][2];

 private:
  uint32_t p_at[4], q_at[4];
};

template <typename Tile, bool P_MN_MAJOR, int ATOM>
class Fragments<Tile, double, P_MN_MAJOR, ATOM> {
 public:
  using Word = double;
  using Sum = double;
  static constexpr int STEP_BYTES = 64;
  static constexpr int STEPS = Tile::BOXES * 128 / STEP_BYTES;

  // The even ones first: half a warp then loads from 32 different banks.
  static __device__ __forceinline__ int q_place(int i) { return i % 4 * 2 + i / 4; }
  // Along m or n that would do harm.
  static __device__ __forceinline__ int p_place(int i) { return P_MN_MAJOR ? i : q_place(i); }

  // Lane g * 4 + t has of P the g-th rows of both eights, of Q the g-th column, and of K the
  // elements t and t + 4 of a step.
  __device__ __forceinline__ void set_addresses(int lane, int band, uint32_t q, int column) {
    static_assert(!P_MN_MAJOR || ATOM == 16, "a band is an atom");
    const int row = p_place(lane / 4), t = lane % 4;
    column += q_place(lane / 4);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        // Along K: of step i, the first eight. Along m or n: of any step, the i-th eight.
        p_at[i][half] =
            P_MN_MAJOR
                ? band * 16 * 128 + ptx::swizzled<128>((t + half * 4) * 128 + (row + i * 8) * 8)
                : ptx::swizzled<128>((band * 16 + row) * 128 + i * 64 + half * 32 + t * 8);
        q_at[i][half] = q + ptx::swizzled<128>(column * 128 + i * 64 + half * 32 + t * 8);
        ptx::forget(p_at[i][half], q_at[i][half]);
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
        q[step][eight][half] = ptx::load_shared_f64(q_box + q_at[step % 2][half] + eight * 8 * 128);
    }
  }

  Word p[STEPS][4], q[STEPS][Tile::EIGHTS][2];

 private:
  uint32_t p_at[2][2], q_at[2][2];
};

}  // namespace tiled
