// How rung tall runs a problem. Pure, as plan/plan.h.
#pragma once

#include <algorithm>

#include "cuda/engine/tall/tiles.h"
#include "cuda/engine/tall/way.h"
#include "cuda/plan/device.h"
#include "cuda/plan/sides.h"
#include "cuda/plan/swap_ab.h"

namespace tiled {

// The problem whose A is the long operand.
inline Problem tall_problem(const Problem& problem, const TallWay& way) {
  return way.swap_ab ? with_ab_swapped(problem) : problem;
}

inline int32_t tall_columns(const Problem& computed, const TallWay& way) {
  const int64_t block_n = tall_tile(way.tile).block_n;
  return static_cast<int32_t>((computed.n + block_n - 1) / block_n);
}

// Whether C's lines of `computed` are aligned, so that a warp's vectors of 16 bytes fill them.
inline bool has_whole_vectors(const Problem& computed) {
  const Result& c = computed.c;
  return c.alignment == 16 && (c.row_stride == 1 || (c.col_stride == 1 && computed.n % 8 == 0));
}

// Whether the panel holds all of K, so that a block loads it once.
inline bool panel_stays(const Problem& computed, const TallWay& way) {
  return computed.k <= way.panel_k;
}

// Whether it is for the kernel that knows nothing else: the long operand's lines are aligned, all
// of K is in the panel, and the sums go to C as they are.
inline bool is_plain(const Problem& computed, const TallWay& way) {
  return way.read == TallRead::Sixteen && panel_stays(computed, way) &&
         computed.epilogue.is_identity() && computed.epilogue.out_dtype == computed.dtype &&
         (computed.dtype == DType::Float32 || has_whole_vectors(computed));
}

inline int64_t strips_of(const Problem& computed, const TallWay& way) {
  return blocks_over(computed.m, int64_t{tall_tile(way.tile).rows});
}

inline int64_t shared_bytes_of(const TallWay& way) {
  const TallTileInfo& tile = tall_tile(way.tile);
  return tile.rings_bytes + (tile.chains ? int64_t{way.panel_k} * tile.block_n * 4
                                         : int64_t{tile.block_n} * (2 * way.panel_k + 16));
}

// Blocks that a multiprocessor holds.
inline int64_t fitting_blocks(const Problem& computed, const TallWay& way,
                              const DeviceInfo& device) {
  const TallTileInfo& tile = tall_tile(way.tile);
  const int64_t fit =
      device.shared_bytes_per_sm / (shared_bytes_of(way) + device.shared_bytes_reserved);
  return std::clamp<int64_t>(
      fit, 1, is_plain(computed, way) ? tile.plain_blocks_per_sm : tile.blocks_per_sm);
}

inline TallArguments tall_arguments(const Problem& problem, const TallWay& way, void* totals) {
  const Problem computed = tall_problem(problem, way);
  return {computed,   totals, way.read, way.lanes, way.panel_k, tall_columns(computed, way),
          way.sharers};
}

}  // namespace tiled
