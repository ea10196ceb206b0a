// The named tile configurations. A tile is BLOCK_M x BLOCK_N of C, fed in steps of BLOCK_K;
// each thread owns THREAD_M x THREAD_N of it. Plain constants and no CUDA header, so that the
// planner reads the same numbers as the kernel.
#pragma once

#include "core/segments.h"

namespace tiled {

// What register_tile needs of a configuration; the named ones follow.
template <int M, int N, int PATCH_M, int PATCH_N, int BYTES, int BLOCKS, int PANEL = PATCH_N>
struct RegisterTile {
  static constexpr int BLOCK_M = M;
  static constexpr int BLOCK_N = N;
  static constexpr int BLOCK_K = 8;
  static constexpr int THREAD_M = PATCH_M;
  static constexpr int THREAD_N = PATCH_N;
  static constexpr int ACC_BYTES = BYTES;  // bytes of one accumulator
  static constexpr int THREADS = (M / PATCH_M) * (N / PATCH_N);
  static constexpr int BLOCKS_PER_SM = BLOCKS;  // asked of the compiler, which fits the registers
  static constexpr int VECTOR = 16 / BYTES;     // accumulators in a 16-byte shared-memory access
  // Columns of a patch that are multiplied in one go. It only changes the order of independent
  // instructions, and with it how the compiler spreads the registers over the banks of the
  // register file, which is worth 5 % on an H200.
  static constexpr int PANEL_N = PANEL;
  // One vector of padding a row: with BLOCK_K = 8 a warp's transposing stores then fall into 32
  // different banks.
  static constexpr int LEADING_A = M + VECTOR;                                        // elements
  static constexpr int LEADING_B = N + VECTOR;                                        // elements
  static constexpr int SHARED_BYTES = 2 * BLOCK_K * (LEADING_A + LEADING_B) * BYTES;  // two stages

  static_assert(SEGMENT_K % BLOCK_K == 0, "a segment is a whole number of steps");
  static_assert(PATCH_M % VECTOR == 0 && PATCH_N % VECTOR == 0,
                "a thread's patch is made of 16-byte vectors");
  static_assert(PATCH_N % PANEL == 0, "a patch is a whole number of panels");
  static_assert((M / PATCH_M) % 4 == 0 && (N / PATCH_N) % 8 == 0,
                "a warp is 4 x 8 threads of the grid of patches");
  static_assert(THREADS * BLOCKS * (PATCH_M * PATCH_N * BYTES / 4) <= 32768,
                "the accumulators leave half of the 65,536 registers to everything else");
  static_assert(SHARED_BYTES <= 48 * 1024, "static shared memory ends at 48 KiB");
};

// 4-byte accumulators: fp32, fp16, bf16, integers up to 32 bits.
struct Tile128x256 : RegisterTile<128, 256, 8, 16, 4, 1> {};    // 128 FMAs for 24 loaded values
struct Tile128x128 : RegisterTile<128, 128, 8, 8, 4, 2, 2> {};  // 64 for 16, and twice the blocks
struct Tile64x64 : RegisterTile<64, 64, 8, 4, 4, 4> {};         // eight times the blocks
// 8-byte accumulators: fp64, int64, complex64. 8 x 8 of them would not fit 128 registers.
struct Tile128x64 : RegisterTile<128, 64, 8, 4, 8, 2> {};
struct Tile64x64Wide : RegisterTile<64, 64, 4, 4, 8, 2> {};
// 16-byte accumulators: complex128.
struct Tile64x64Complex : RegisterTile<64, 64, 4, 4, 16, 2> {};
struct Tile32x32Complex : RegisterTile<32, 32, 2, 2, 16, 2> {};

// register_tile for fp32 from compute capability 8.0 on
// (rungs/3_register_tile/register_tile_async.cu). K elements of k are a step; STAGE_COUNT steps lie
// in shared memory, all but one of them on their way.
template <int M, int N, int K, int PATCH_M, int PATCH_N, int STAGE_COUNT, int BLOCKS>
struct AsyncTile {
  static constexpr int BLOCK_M = M;
  static constexpr int BLOCK_N = N;
  static constexpr int BLOCK_K = K;
  static constexpr int THREAD_M = PATCH_M;
  static constexpr int THREAD_N = PATCH_N;
  static constexpr int ACC_BYTES = 4;  // of fp32
  static constexpr int THREADS = (M / PATCH_M) * (N / PATCH_N);
  static constexpr int STAGES = STAGE_COUNT;
  static constexpr int BLOCKS_PER_SM = BLOCKS;  // asked of the compiler, which fits the registers
  static constexpr int VECTOR = 4;              // elements in a 16-byte access
  // One vector of padding a row of k, as above: lanes that copy single elements take 8 of k of 4
  // rows, and these 32 fall into different banks.
  static constexpr int LEADING_A = M + VECTOR;  // elements
  static constexpr int LEADING_B = N + VECTOR;
  static constexpr int STAGE_ELEMENTS = K * (LEADING_A + LEADING_B);
  static constexpr int SHARED_BYTES = STAGES * STAGE_ELEMENTS * 4;

  static_assert(SEGMENT_K % K == 0, "a segment is a whole number of steps");
  static_assert(K % 8 == 0 && LEADING_A % 32 == 4 && LEADING_B % 32 == 4,
                "8 of k of 4 rows fall into 32 different banks");
  static_assert(PATCH_M % VECTOR == 0 && PATCH_N % VECTOR == 0,
                "a thread's patch is made of 16-byte vectors");
  static_assert((M / PATCH_M) % 4 == 0 && (N / PATCH_N) % 8 == 0,
                "a warp is 4 x 8 threads of the grid of patches");
  static_assert(THREADS == 128, "one warp a scheduler, as the planner's model has it");
  static_assert(THREADS * BLOCKS * PATCH_M * PATCH_N <= 32768,
                "the accumulators leave half of the 65,536 registers to everything else");
  static_assert(STAGES >= 2 && SHARED_BYTES <= 48 * 1024, "static shared memory ends at 48 KiB");
};

struct AsyncTile128x128 : AsyncTile<128, 128, 8, 16, 8, 3, 2> {};  // 128 FMAs for 24 loaded values
struct AsyncTile64x64 : AsyncTile<64, 64, 8, 8, 4, 4, 4> {};       // four times the blocks
// Eight times the blocks. Asked for four of them the compiler would run out of registers.
struct AsyncTile64x32 : AsyncTile<64, 32, 16, 4, 4, 4, 3> {};

struct AsyncTiles {
  using Large = AsyncTile128x128;
  using Medium = AsyncTile64x64;
  using Small = AsyncTile64x32;
};

// Rung mma_tile for 16 bits and tf32: a tile of ROWS x ROWS of C, fed in steps of WORDS 32-bit
// words of k (32 elements of 16 bits, 16 of tf32).
struct MmaTile {
  static constexpr int ROWS = 64;
  static constexpr int WORDS = 16;
  static constexpr int PADDING = 4;    // words a row
  static constexpr int THREADS = 128;  // four warps of 32 x 32 elements
  static constexpr int SHARED_BYTES = 2 * ROWS * (WORDS + PADDING) * 4;
};

// Rung mma_tile for fp64 (rungs/4_mma_tile/mma_tile_fp64.cu): warps of WARP_ROWS x WARP_COLUMNS of
// C, fed by steps of 16 of k, of which STAGE_COUNT lie in shared memory.
template <int M, int N, int WARP_ROWS, int WARP_COLUMNS, int STAGE_COUNT, int BLOCKS>
struct Fp64Tile {
  static constexpr int BLOCK_M = M;
  static constexpr int BLOCK_N = N;
  static constexpr int BLOCK_K = 16;
  static constexpr int WARP_M = WARP_ROWS;
  static constexpr int WARP_N = WARP_COLUMNS;
  static constexpr int THREAD_M = WARP_M / 8;  // a lane has 2 rows of every 16
  static constexpr int THREAD_N = WARP_N / 4;  // and 2 columns of every 8
  static constexpr int THREADS = (M / WARP_M) * (N / WARP_N) * 32;
  static constexpr int STAGES = STAGE_COUNT;
  static constexpr int BLOCKS_PER_SM = BLOCKS;  // asked of the compiler, which fits the registers
  // Elements a row of shared memory, of k or of m or n. With four of them for padding, 4 of k of 4
  // rows fall into 32 different banks, whichever way the tile lies.
  static constexpr int PADDING = 4;
  // Bytes of an operand's tile that lies along k; along m or n it has fewer.
  static constexpr int TILE_BYTES(int rows) { return rows * (BLOCK_K + PADDING) * 8; }
  static constexpr int STAGE_BYTES = TILE_BYTES(M) + TILE_BYTES(N);
  static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES;

  static_assert(SEGMENT_K % BLOCK_K == 0, "a segment is a whole number of steps");
  static_assert(M % 16 == 0 && N % 16 == 0 && WARP_M % 16 == 0 && WARP_N % 8 == 0,
                "warps are made of tiles of 16 x 8, and rows are padded to 4 modulo 16 elements");
  static_assert(THREADS * BLOCKS * THREAD_M * THREAD_N * 2 <= 32768,
                "the accumulators leave half of the 65,536 registers to everything else");
  static_assert(STAGES >= 2 && BLOCKS * (SHARED_BYTES + 1024) <= 228 * 1024,
                "the blocks fit a multiprocessor of compute capability 9.0");
};

struct Fp64Tile128x128 : Fp64Tile<128, 128, 64, 32, 4, 1> {};
struct Fp64Tile64x64 : Fp64Tile<64, 64, 32, 32, 4, 2> {};
// For one block a multiprocessor, and few rows: many steps on their way.
struct Fp64Tile32x64 : Fp64Tile<32, 64, 16, 16, 12, 1> {};

struct Fp64Tiles {
  using Large = Fp64Tile128x128;
  using Medium = Fp64Tile64x64;
  using Small = Fp64Tile32x64;
};

// Rungs tma_wgmma and warp_specialized: a stage holds 128 bytes of K of both operands.
struct TmaWgmmaTile {
  static constexpr int BLOCK_M = 64;
  static constexpr int BLOCK_N = 128;
  static constexpr int THREADS = 128;  // one warpgroup
  static constexpr int STAGES = 2;
  static constexpr int STAGE_BYTES = (BLOCK_M + BLOCK_N) * 128;
  static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES + STAGES * 8;
};
struct WarpSpecializedTile {
  static constexpr int BLOCK_M = 128;
  static constexpr int BLOCK_N = 128;
  static constexpr int CONSUMERS = 2;                   // warpgroups of 64 rows each
  static constexpr int THREADS = CONSUMERS * 128 + 32;  // and the producer's warp
  static constexpr int STAGES = 4;
  static constexpr int STAGE_BYTES = (BLOCK_M + BLOCK_N) * 128;
  static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES + 2 * STAGES * 8;
};

// The tiles for accumulators of this many bytes. Wide accumulators have two sizes only.
template <int ACC_BYTES>
struct RegisterTilesFor;
template <>
struct RegisterTilesFor<4> {
  using Large = Tile128x256;
  using Medium = Tile128x128;
  using Small = Tile64x64;
};
template <>
struct RegisterTilesFor<8> {
  using Large = Tile128x64;
  using Medium = Tile64x64Wide;
  using Small = Tile64x64Wide;
};
template <>
struct RegisterTilesFor<16> {
  using Large = Tile64x64Complex;
  using Medium = Tile32x32Complex;
  using Small = Tile32x32Complex;
};

}  // namespace tiled
