// How a warp of rung few_rows takes its 16 rows of a weight of tf32 that is contiguous along m or n
// from a stage to the registers of wgmma, 32 bytes of K at a time: wgmma reads tf32 in shared
// memory along K alone, and ldmatrix transposes no elements but those of 16 bits.
#pragma once

#include "cuda/ptx/opaque.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/swizzle.cuh"

namespace tiled {

// Boxes [32 k][32 p] of fp32, element by element. A lane wants k = lane % 4 and
// lane % 4 + 4 of two rows. All rows of a k have the same banks but for the swizzle; with the rows
// of an instruction's eight in two fours, 16 rows apart, no two lanes meet in one.
//
//     16-byte chunks of a row of the box:   0 1 2 3 | 4 5 6 7
//     rows 0-3, 4-7 of the first eight      |         |          (of the strip's first warp; the
//     rows 0-3, 4-7 of the second             |         |        second warp has 2, 3, 6 and 7)
class WeightFragments {
 public:
  // Which row of a tile is the instruction's i-th of those that a lane of this warp has: row() and
  // down(1) below it.
  static __device__ __forceinline__ int row(int warp, int lane) {
    const int i = lane / 4;
    return warp / 2 * 32 + warp % 2 * 8 + i % 4 + i / 4 * 16;
  }
  static __device__ __forceinline__ int down(int i) { return i * 4; }

  // Addresses are computed once and kept.
  __device__ __forceinline__ void set_addresses(int warp, int lane) {
    const int k = lane % 4, p = row(warp, lane);
    near = p / 32 * 32 * 128 + ptx::swizzled<128>(k * 128 + p % 32 * 4);
    far = (near + 4 * 128) ^ 64;  // four rows on, the pattern's chunks have changed halves
    ptx::opaque(near, far);
  }

  // Step 0 to 3 of a box.
  __device__ __forceinline__ void fetch(uint32_t (&a)[4], uint32_t box, int step) const {
    // Four rows of P on is a chunk of 16 bytes on, from an even one.
    const uint32_t at = box + step * 8 * 128;
    a[0] = ptx::load_shared_u32(at + near), a[1] = ptx::load_shared_u32(at + (near ^ 16));
    a[2] = ptx::load_shared_u32(at + far), a[3] = ptx::load_shared_u32(at + (far ^ 16));
  }

 private:
  uint32_t near, far;  // bytes from the box's begin to k = lane % 4, and to four on
};

}  // namespace tiled
