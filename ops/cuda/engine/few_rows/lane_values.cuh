// A lane of few_rows' fp32 kernels reads these values of one operand's tile.
#pragma once

#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/shared.cuh"

namespace tiled {

// COUNT rows of the tile for a lane, LANES of which are side by side in it. Along k: LANES rows
// apart, a load has 16 bytes of k. Along m or n: in vectors side by side, a load has one k of each.
//
//     along k      row 0, 1, ... LANES - 1: lanes' first rows; then their second ones
//     along m, n   rows 0 .. VECTOR - 1: the first lane's, the next VECTOR the next lane's
//
// One row of a weight along m or n comes by ldmatrix, which takes four k at once: a lane gets the
// l % 4-th word of the l / 4-th row of each of its matrices, and 16 bytes eight times are the 32
// neighbours that a strip has of a k.
//
// The tile has boxes of 128 bytes of k, swizzled: [rows][128 bytes of k]; or along m or n
// [strips][32 of k][STRIP rows]. Eight lanes that load together meet 32 different banks.
template <int COUNT, int LANES, bool MN_MAJOR, int STRIP>
class LaneValues {
 public:
  static constexpr int K = 4;  // of a step, 16 bytes
  static constexpr int VECTOR = !MN_MAJOR ? 1 : COUNT < 4 ? COUNT : 4;
  // Rows of the tile from the lane's first to its i-th.
  static constexpr int apart(int i) { return i / VECTOR * (VECTOR * LANES) + i % VECTOR; }

  struct Step {
    float value[COUNT][K];
  };

  // The lane's first row, of a warp whose rows begin at `first`.
  static __device__ __forceinline__ int row(int first, int lane) { return first + lane * VECTOR; }

  // Where its first row stands, bytes from the begin of a box.
  static __device__ __forceinline__ uint32_t offset(int row) {
    if (BY_MATRICES) {  // what the lane says to ldmatrix: of the k that its eight lanes ask for
      const int k = row % 32 / 8;
      return row / 32 * STRIP_BYTES + k * 128 + (row % 8 ^ k) * 16;
    }
    return MN_MAJOR ? row / STRIP * STRIP_BYTES + row % STRIP * 4 : row * 128 + row % 8 * 16;
  }

  // The chunk-th step of the box that begins `box` bytes, a multiple of 1024, behind another one,
  // where the first row stands at `at`.
  static __device__ __forceinline__ void load(Step& step, uint32_t at, int box, int chunk) {
    if constexpr (BY_MATRICES) {
      uint32_t v[4];
      ptx::ldmatrix_x4(v, (at ^ chunk % 2 * 64) + (box + chunk * (K * 128)));
#pragma unroll
      for (int k = 0; k < K; ++k) step.value[0][k] = __uint_as_float(v[k]);
    } else if constexpr (MN_MAJOR) {
#pragma unroll
      for (int i = 0; i < COUNT; i += VECTOR)
#pragma unroll
        for (int k = 0; k < K; ++k) {
          const int line = chunk * K + k;  // of STRIP rows
          const int within = apart(i) % STRIP * 4, strips = apart(i) / STRIP;
          const uint32_t swizzle = line * ROW_BYTES / 128 % (ROW_BYTES / 16) * 16;
          load_vector(step, i, k,
                      (at ^ (within ^ swizzle)) + (box + strips * STRIP_BYTES + line * ROW_BYTES));
        }
    } else {
#pragma unroll
      for (int i = 0; i < COUNT; ++i) {
        const uint4 v =
            ptx::load_shared_v4((at ^ ((chunk ^ apart(i) % 8) * 16)) + (box + apart(i) * 128));
        step.value[i][0] = __uint_as_float(v.x), step.value[i][1] = __uint_as_float(v.y);
        step.value[i][2] = __uint_as_float(v.z), step.value[i][3] = __uint_as_float(v.w);
      }
    }
  }

 private:
  static constexpr bool BY_MATRICES = MN_MAJOR && COUNT == 1 && LANES == 32 && STRIP == 32;
  static constexpr int ROW_BYTES = STRIP * 4, STRIP_BYTES = 32 * ROW_BYTES;

  // VECTOR neighbours of one k, the i-th value and those after it.
  static __device__ __forceinline__ void load_vector(Step& step, int i, int k, uint32_t address) {
    if constexpr (VECTOR == 4) {
      const uint4 v = ptx::load_shared_v4(address);
      step.value[i][k] = __uint_as_float(v.x), step.value[i + 1][k] = __uint_as_float(v.y);
      step.value[i + 2][k] = __uint_as_float(v.z), step.value[i + 3][k] = __uint_as_float(v.w);
    } else if constexpr (VECTOR == 2) {
      const double two = ptx::load_shared_f64(address);  // 8 bytes, of any meaning
      step.value[i][k] = __int_as_float(__double2loint(two));
      step.value[i + 1][k] = __int_as_float(__double2hiint(two));
    } else {
      step.value[i][k] = __uint_as_float(ptx::load_shared_u32(address));
    }
  }
};

}  // namespace tiled
