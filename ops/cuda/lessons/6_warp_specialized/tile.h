// The tile of rung warp_specialized, for the planner and the kernel: a stage holds 128 bytes of K
// of both operands.
#pragma once

namespace tiled {

struct WarpSpecializedTile {
  static constexpr int BLOCK_M = 128;
  static constexpr int BLOCK_N = 128;
  static constexpr int CONSUMERS = 2;                   // warpgroups of 64 rows each
  static constexpr int THREADS = CONSUMERS * 128 + 32;  // and the producer's warp
  static constexpr int STAGES = 4;
  static constexpr int STAGE_BYTES = (BLOCK_M + BLOCK_N) * 128;
  static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES + 2 * STAGES * 8;
};

}  // namespace tiled
