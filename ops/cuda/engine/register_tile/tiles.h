// The named tile configurations of fp32 by cp.async. Plain constants and no CUDA header, so that
// the planner reads the same numbers as the kernel.
#pragma once

#include "core/segments.h"
#include "cuda/plan/tile_name.h"

namespace tiled {

// register_tile_async.cu needs this of a configuration. K elements of k are a step; STAGE_COUNT
// steps are in shared memory, all but one of them on their way.
template <int M, int N, int K, int THREAD_TILE_M, int THREAD_TILE_N, int STAGE_COUNT, int BLOCKS>
struct AsyncTile {
  static constexpr int BLOCK_M = M;
  static constexpr int BLOCK_N = N;
  static constexpr int BLOCK_K = K;
  static constexpr int THREAD_M = THREAD_TILE_M;
  static constexpr int THREAD_N = THREAD_TILE_N;
  static constexpr int ACC_BYTES = 4;  // of fp32
  static constexpr int THREADS = (M / THREAD_TILE_M) * (N / THREAD_TILE_N);
  static constexpr int STAGES = STAGE_COUNT;
  static constexpr int BLOCKS_PER_SM = BLOCKS;  // asked of the compiler, which fits the registers
  static constexpr int VECTOR = 4;              // elements in a 16-byte access
  // Elements from a row of k of an operand's tile to the next. Lanes that copy single elements take
  // 8 of k of 4 rows, and with a padding of one vector these 32 fall into different banks; vectors
  // must begin at multiples of 32 bytes by twos (ptx::CP_ASYNC_ALIGNMENT).
  static constexpr int leading(int rows, bool by_vectors) {
    return rows + (by_vectors ? 2 : 1) * VECTOR;
  }
  static constexpr int STAGE_ELEMENTS = K * (leading(M, true) + leading(N, true));  // at most
  static constexpr int SHARED_BYTES = STAGES * STAGE_ELEMENTS * 4;

  static_assert(SEGMENT_K % K == 0, "a segment is a whole number of steps");
  static_assert(K % 8 == 0 && leading(M, false) % 32 == 4 && leading(N, false) % 32 == 4,
                "8 of k of 4 rows fall into 32 different banks");
  static_assert(THREAD_TILE_M % VECTOR == 0 && THREAD_TILE_N % VECTOR == 0,
                "a thread tile is made of 16-byte vectors");
  static_assert((M / THREAD_TILE_M) % 4 == 0 && (N / THREAD_TILE_N) % 8 == 0,
                "a warp is 4 x 8 threads of the grid of thread tiles");
  static_assert(THREADS == 128, "one warp a scheduler");
  static_assert(THREADS * BLOCKS * THREAD_TILE_M * THREAD_TILE_N <= 32768,
                "the accumulators leave half of the 65,536 registers to everything else");
  static_assert(STAGES >= 2 && SHARED_BYTES <= 48 * 1024, "static shared memory ends at 48 KiB");
};

struct AsyncTile128x128 : AsyncTile<128, 128, 8, 16, 8, 3, 2> {};  // 128 FMAs for 24 loaded values
struct AsyncTile64x64 : AsyncTile<64, 64, 8, 8, 4, 4, 4> {};       // four times the blocks
// Eight times the blocks. Asked for four of them the compiler would run out of registers.
struct AsyncTile64x32 : AsyncTile<64, 32, 16, 4, 4, 4, 3> {};

using AsyncTiles = TileList<AsyncTile128x128, AsyncTile64x64, AsyncTile64x32>;

}  // namespace tiled
