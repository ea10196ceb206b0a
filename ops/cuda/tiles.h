// The named tile configurations. A tile is BLOCK_M x BLOCK_N of C, fed in steps of BLOCK_K;
// each thread owns THREAD_M x THREAD_N of it. Plain constants and no CUDA header, so that the
// planner reads the same numbers as the kernel.
#pragma once

#include "segments.h"

namespace tiled {

// What register_tile needs of a configuration; the named ones follow.
template <int M, int N, int PATCH_M, int PATCH_N, int BYTES, int K = 8>
struct RegisterTile {
  static constexpr int BLOCK_M = M;
  static constexpr int BLOCK_N = N;
  static constexpr int BLOCK_K = K;
  static constexpr int THREAD_M = PATCH_M;
  static constexpr int THREAD_N = PATCH_N;
  static constexpr int ACC_BYTES = BYTES;  // bytes of one accumulator
  static constexpr int THREADS = (M / PATCH_M) * (N / PATCH_N);
  static constexpr int BLOCKS_PER_SM = 512 / THREADS;  // asked of the compiler: 128 registers
  static constexpr int VECTOR = 16 / BYTES;  // accumulators in a 16-byte shared-memory access
  // One vector of padding a row: with BLOCK_K = 8 a warp's transposing stores then fall into 32
  // different banks.
  static constexpr int LEADING_A = M + VECTOR;  // elements
  static constexpr int LEADING_B = N + VECTOR;  // elements
  static constexpr int SHARED_BYTES = 2 * BLOCK_K * (LEADING_A + LEADING_B) * BYTES;  // two stages

  static_assert(SEGMENT_K % BLOCK_K == 0, "a segment is a whole number of steps");
  static_assert(PATCH_M % VECTOR == 0 && PATCH_N % VECTOR == 0,
                "a thread's patch is made of 16-byte vectors");
  static_assert((M / PATCH_M) % 4 == 0 && (N / PATCH_N) % 8 == 0,
                "a warp is 4 x 8 threads of the grid of patches");
  static_assert(SHARED_BYTES <= 48 * 1024, "static shared memory ends at 48 KiB");
};

// 4-byte accumulators: fp32, fp16, bf16, integers up to 32 bits.
struct Tile128x128 : RegisterTile<128, 128, 8, 8, 4> {};  // 64 FMAs for 16 loaded values
struct Tile64x64 : RegisterTile<64, 64, 8, 4, 4> {};      // four times the blocks
// 8-byte accumulators: fp64, int64, complex64. 8 x 8 of them would not fit 128 registers.
struct Tile128x64 : RegisterTile<128, 64, 8, 4, 8> {};
struct Tile64x64Wide : RegisterTile<64, 64, 4, 4, 8> {};
// 16-byte accumulators: complex128.
struct Tile64x64Complex : RegisterTile<64, 64, 4, 4, 16> {};
struct Tile32x32Complex : RegisterTile<32, 32, 2, 2, 16> {};

// The larger and the smaller tile for accumulators of this many bytes.
template <int ACC_BYTES>
struct RegisterTilesFor;
template <>
struct RegisterTilesFor<4> {
  using Large = Tile128x128;
  using Small = Tile64x64;
};
template <>
struct RegisterTilesFor<8> {
  using Large = Tile128x64;
  using Small = Tile64x64Wide;
};
template <>
struct RegisterTilesFor<16> {
  using Large = Tile64x64Complex;
  using Small = Tile32x32Complex;
};

}  // namespace tiled
