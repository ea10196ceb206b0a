// The tiles of lesson 4. Plain constants, for the planner and the kernel.
#pragma once

#include "core/segments.h"
#include "cuda/plan/tile_name.h"

namespace tiled {

// A tile of SIZE x SIZE of C by four warps, fed in steps of STEP_WORDS 32-bit words of k.
template <int SIZE, int STEP_WORDS>
struct MmaTile {
  static constexpr int BLOCK_M = SIZE, BLOCK_N = SIZE, ROWS = SIZE;
  static constexpr int WORDS = STEP_WORDS;
  static constexpr int BLOCK_K = 2 * WORDS;  // elements of 16 bits; half as many of tf32
  static constexpr int PADDING = 4;          // words a row
  static constexpr int THREADS = 128;        // four warps, of WARP_ROWS x WARP_ROWS elements
  static constexpr int BLOCKS_PER_SM = 2;    // asked of the compiler, which fits the registers
  static constexpr int WARP_ROWS = SIZE / 2;
  static constexpr int THREAD_M = WARP_ROWS / 8, THREAD_N = WARP_ROWS / 4;
  static constexpr int SHARED_BYTES = 2 * ROWS * (WORDS + PADDING) * 4;
};
struct MmaTile64x64 : MmaTile<64, 16> {};
// A thread has a quarter of the elements to move, one by one: for a C that has few tiles.
struct MmaTile32x32 : MmaTile<32, 32> {};
using MmaTiles = TileList<MmaTile64x64, MmaTile32x32>;

}  // namespace tiled
