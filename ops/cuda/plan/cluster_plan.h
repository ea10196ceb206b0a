// The plan that rungs share whose blocks stay, in clusters, and take tile after tile: hopper
// and fp16x3.
#pragma once

#include <cstdint>

namespace tiled {

struct ClusterPlan {
  int8_t tile;                  // of the rung's own list
  bool swap_ab;                 // P is B's transpose and Q is A; else P is A and Q B's transpose
  int8_t cluster_p, cluster_q;  // blocks of a cluster; one of them is 1
  int32_t panel;                // clusters along P done before the next along Q
  int32_t blocks;               // of the grid
};

// The row of elements along m or n, of those that the swizzles know (128, 64, 32 bytes), in which a
// consumer's share of an operand is: the widest that divides it, and of wide shares, which other
// rows would cut into many boxes, the widest of all, the last of them filled beyond the share.
constexpr int operand_atom(int share, int element_bytes = 2) {
  if (element_bytes == 4) return 32;  // only shares of whole wgmma tiles get here
  return share % 64 == 0 || share > 96 ? 64 : share % 32 == 0 ? 32 : 16;
}

// Rows of such an operand in shared memory.
constexpr int rows_in_atoms(int rows, int share, int element_bytes = 2) {
  const int atom = operand_atom(share, element_bytes);
  return (rows + atom - 1) / atom * atom;
}

}  // namespace tiled
