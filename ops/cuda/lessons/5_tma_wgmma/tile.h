// The tile of rung tma_wgmma, for the planner and the kernel: a stage holds 128 bytes of K of both
// operands.
#pragma once

namespace tiled {

struct TmaWgmmaTile {
  static constexpr int BLOCK_M = 64;
  static constexpr int BLOCK_N = 128;
  static constexpr int THREADS = 128;  // one warpgroup
  static constexpr int STAGES = 2;
  static constexpr int STAGE_BYTES = (BLOCK_M + BLOCK_N) * 128;
  static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES + STAGES * 8;
};

}  // namespace tiled
