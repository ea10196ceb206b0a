// 64 rows of an fp32 operand by 64 of k in a stage, as TMA writes them and as the lanes of a
// consumer take them, for direct.cu.
//
// clang-format off
//     K-major:  four boxes, [64 rows][16 of k], rows of  64 bytes; lane l: k 4 (l % 4) + 0, 1, 2, 3
//     MN-major: two boxes,  [64 of k][32 rows], rows of 128 bytes; lane l: k 2 (l % 4) + 0, 1, 8, 9
// clang-format on
//
// of each 16 of k, and rows 16 w + l / 4 + 0, 8 of warp w. Both meet no bank twice. As wgmma counts
// k, the first is another order of the 16, in which Q's planes are written as well.
#pragma once

#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/swizzle.cuh"
#include "cuda/ptx/tma.cuh"

namespace tiled {

template <bool MN_MAJOR>
struct Fp32Rows {
  static constexpr int ROWS = 64, BLOCK_K = 64;
  static constexpr int BYTES = ROWS * BLOCK_K * 4;
  static constexpr int BOX = MN_MAJOR ? 32 : 16;  // elements of a box's rows
  static constexpr int ROW_BYTES = BOX * 4;
  static constexpr int BOX_BYTES = 64 * ROW_BYTES;

  // As OperandTile's: what one of the blocks that share the rows loads for all of them.
  struct Part {
    int row, k;
    uint32_t offset;
    uint16_t mask;
  };
  static __device__ __forceinline__ Part part(int blocks, int rank) {
    if (blocks == 1) return {0, 0, 0, 0};
    const int first = 64 / blocks * rank;  // of the 64 rows of a box
    return {MN_MAJOR ? 0 : first, MN_MAJOR ? first : 0, static_cast<uint32_t>(first * ROW_BYTES),
            static_cast<uint16_t>((1u << blocks) - 1)};
  }

  static __device__ __forceinline__ void load(const Part& part, uint32_t shared,
                                              const CUtensorMap* map, int row, int k, int batch,
                                              uint32_t barrier) {
#pragma unroll
    for (int box = 0; box < 64 / BOX; ++box) {
      const uint32_t to = shared + part.offset + box * BOX_BYTES;
      const int x = (MN_MAJOR ? row : k) + box * BOX, y = MN_MAJOR ? k + part.k : row + part.row;
      if (part.mask == 0)
        ptx::tma_load(to, map, x, y, batch, barrier);
      else
        ptx::tma_load_multicast(to, map, x, y, batch, barrier, part.mask);
    }
  }

  // Bytes from the tile's begin to this lane's first element of its first row, k 0.
  uint32_t at[2];  // MN-major: of k 2 (l % 4) and the next

  __device__ __forceinline__ Fp32Rows() {
    const uint32_t warp = threadIdx.x % 128 / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    if constexpr (MN_MAJOR) {
      const uint32_t box = warp / 2 * BOX_BYTES, row = 16 * (warp % 2) + g;
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j)
        at[j] = box + ptx::swizzled<ROW_BYTES>((2 * t + j) * ROW_BYTES + row * 4);
    } else {
      at[0] = at[1] = ptx::swizzled<ROW_BYTES>((16 * warp + g) * ROW_BYTES + t * 16);
    }
  }

  // The lane's elements of step `step`, of its two rows, in the order of k above.
  __device__ __forceinline__ void take(float (&v)[2][4], uint32_t tile, int step) const {
    if constexpr (MN_MAJOR) {
      // Eight rows on are two chunks of 16 bytes on; eight of k on, rows are swizzled alike.
#pragma unroll
      for (int row = 0; row < 2; ++row)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          v[row][j] = __uint_as_float(ptx::load_shared_u32(tile + (at[j % 2] ^ row * 32) +
                                                           (16 * step + j / 2 * 8) * ROW_BYTES));
    } else {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const uint4 x = ptx::load_shared_v4(tile + at[0] + step * BOX_BYTES + row * 8 * ROW_BYTES);
        v[row][0] = __uint_as_float(x.x), v[row][1] = __uint_as_float(x.y);
        v[row][2] = __uint_as_float(x.z), v[row][3] = __uint_as_float(x.w);
      }
    }
  }
};

}  // namespace tiled
