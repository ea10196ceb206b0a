// The named tile configurations. A tile is BLOCK_M x BLOCK_N of C, fed in steps of BLOCK_K;
// each thread owns THREAD_M x THREAD_N of it. Plain constants and no CUDA header, so that the
// planner reads the same numbers as the kernel.
#pragma once

#include "core/segments.h"
#include "cuda/plan/tile_name.h"

namespace tiled {

// register_tile needs this of a configuration; the named ones follow. CHAIN: bytes of an element's
// chain, which of complex numbers is four and takes twice their bytes.
template <int M, int N, int THREAD_TILE_M, int THREAD_TILE_N, int BYTES, int BLOCKS,
          int PANEL = THREAD_TILE_N, int CHAIN = BYTES>
struct RegisterTile {
  static constexpr int BLOCK_M = M;
  static constexpr int BLOCK_N = N;
  static constexpr int BLOCK_K = 8;
  static constexpr int THREAD_M = THREAD_TILE_M;
  static constexpr int THREAD_N = THREAD_TILE_N;
  static constexpr int ACC_BYTES = BYTES;  // bytes of one accumulator
  static constexpr int THREADS = (M / THREAD_TILE_M) * (N / THREAD_TILE_N);
  static constexpr int BLOCKS_PER_SM = BLOCKS;  // asked of the compiler, which fits the registers
  static constexpr int VECTOR = 16 / BYTES;     // accumulators in a 16-byte shared-memory access
  // Columns of a thread tile that are multiplied in one go. It only changes the order of
  // independent instructions, and with it how the compiler spreads the registers over the banks of
  // the register file, which is worth 5 % on an H200.
  static constexpr int PANEL_N = PANEL;
  // One vector of padding a row: with BLOCK_K = 8 a warp's transposing stores then fall into 32
  // different banks.
  static constexpr int LEADING_A = M + VECTOR;                                        // elements
  static constexpr int LEADING_B = N + VECTOR;                                        // elements
  static constexpr int SHARED_BYTES = 2 * BLOCK_K * (LEADING_A + LEADING_B) * BYTES;  // two stages

  static_assert(SEGMENT_K % BLOCK_K == 0, "a segment is a whole number of steps");
  static_assert(THREAD_TILE_M % VECTOR == 0 && THREAD_TILE_N % VECTOR == 0,
                "a thread tile is made of 16-byte vectors");
  static_assert(THREAD_TILE_N % PANEL == 0, "a thread tile is a whole number of panels");
  static_assert((M / THREAD_TILE_M) % 4 == 0 && (N / THREAD_TILE_N) % 8 == 0,
                "a warp is 4 x 8 threads of the grid of thread tiles");
  static_assert(THREADS * BLOCKS * (THREAD_TILE_M * THREAD_TILE_N * CHAIN / 4) <= 32768,
                "the accumulators leave half of the 65,536 registers to everything else");
  static_assert(SHARED_BYTES <= 48 * 1024, "static shared memory ends at 48 KiB");
};

// 4-byte accumulators: fp32, fp16, bf16, integers up to 32 bits.
struct Tile128x128 : RegisterTile<128, 128, 8, 8, 4, 2, 2> {};  // 64 FMAs for 16 loaded values
struct Tile64x64 : RegisterTile<64, 64, 8, 4, 4, 4> {};         // four times the blocks
// 8-byte accumulators: fp64 and int64. 8 x 8 of them would not fit 128 registers.
struct Tile128x64 : RegisterTile<128, 64, 8, 4, 8, 2> {};
struct Tile64x64Wide : RegisterTile<64, 64, 4, 4, 8, 2> {};
// complex64, whose chains are as many registers as Tile128x128's.
struct Tile64x64WideComplex : RegisterTile<64, 64, 4, 4, 8, 2, 4, 16> {};
// complex128: the chains of the larger are twice as many, the smaller's half.
struct Tile64x64Complex : RegisterTile<64, 64, 4, 4, 16, 1, 4, 32> {};
struct Tile32x32Complex : RegisterTile<32, 32, 2, 2, 16, 2, 2, 32> {};

// The tiles for accumulators of this many bytes, and their chains; the largest first. Products with
// groups have the last, where they do not come by cp.async.
template <int ACC_BYTES, int CHAIN_BYTES = ACC_BYTES>
struct RegisterTilesFor;
template <>
struct RegisterTilesFor<4> {
  using List = TileList<Tile128x128, Tile64x64>;
};
template <>
struct RegisterTilesFor<8> {
  using List = TileList<Tile128x64, Tile64x64Wide>;
};
template <>
struct RegisterTilesFor<8, 16> {
  using List = TileList<Tile64x64WideComplex>;
};
template <>
struct RegisterTilesFor<16, 32> {
  using List = TileList<Tile64x64Complex, Tile32x32Complex>;
};

}  // namespace tiled
