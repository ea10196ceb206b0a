// Where rung fp16x3 keeps its planes, scales and lists; pure, for planner and launch.
#pragma once

#include "core/segments.h"
#include "cuda/parts/hand_over.h"
#include "cuda/plan/repack_layout.h"
#include "cuda/rungs/9_fp16x3/plan.h"

namespace tiled {

// Whether rows lie beside each other, so that neighbours in memory are those of one k.
inline bool lies_beside(const Side& side) {
  return side.row_stride == 1 && side.rows > 1 && side.k_stride != 1;
}

// The fp16 planes of an operand as an operand: entry 2 i is hi of batch entry i and entry 2 i + 1
// lo. They lie as the operand does, along k or rows beside each other, unless `along_k`.
inline Side split_planes(const Side& side, void* data, bool along_k = false) {
  const bool side_by_side = !along_k && lies_beside(side);
  const int64_t along = side_by_side ? side.rows : side.k;
  const int64_t pitch = (along + 63) / 64 * 64;  // whole cache lines
  Side planes = side;
  planes.data = data;
  planes.row_stride = side_by_side ? 1 : pitch;
  planes.k_stride = side_by_side ? pitch : 1;
  planes.batch_stride = (side_by_side ? side.k : side.rows) * pitch;
  planes.alignment = 16;
  return planes;
}

// What rungs/9_fp16x3/split_beside.cu gathers of a row; all zero before.
struct RowExtent {
  uint32_t most, least;     // of MagnitudeRange's, the second's complement
  unsigned long long lost;  // units
};
// And of each panel of so many rows, which a team of blocks shares; all zero before, too.
constexpr int SPLIT_PANEL = 128;
struct SplitPanel {
  // Of the team's blocks: how many have measured their part, in the low half; in the high half a
  // bit for each that has left its tiles to the last of them. One word, so that it changes at once.
  unsigned long long team;
  uint32_t ended;   // blocks that have written their part
  uint32_t number;  // of the first panel: places that blocks have taken so far
};
inline int64_t panels_of(int64_t rows, int64_t entries) {
  return entries * blocks_over(rows, SPLIT_PANEL);
}

// Bytes from the begin of the workspace, for batch entries that differ (one where all are alike).
struct Fp16x3Layout {
  Sides sides;  // of fp32
  int64_t p_entries, q_entries;
  Side p_planes, q_planes;  // their data null
  int64_t p_planes_at, q_planes_at, p_scales_at, q_scales_at;
  int64_t squares_m, squares_n, squares;  // of the guard
  // What is zero before anything else: the guard's count, recomputed and listed[squares]; the words
  // by which tiles that are cut in time are handed over; extents and panels of rows that lie beside
  // each other.
  int64_t guard_at, hand_over_at, p_extents_at, p_panels_at, q_extents_at, q_panels_at, zero_bytes;
  int64_t squares_at, marks_at;  // squares[squares], marks[squares][GUARD_MARK_BYTES / 2]
  int64_t totals_at, bytes;      // totals, or sums that are handed over: a tile for each block
};

constexpr int64_t RECOMPUTED_AT = 4;       // bytes from guard_at
constexpr int64_t GUARD_MARK_BYTES = 512;  // of a square, a bit for each element

inline Fp16x3Layout fp16x3_layout(const Problem& problem, const Fp16x3Plan& plan) {
  Fp16x3Layout l{};
  const Fp16x3TileInfo tile = tile_of(plan);
  l.sides = sides_of(problem, plan.exchanged);
  // P is read as it lies by these two, and Q comes along k, or in fragments. The last has both
  // along k.
  const bool few_rows = plan.kernel == Fp16x3Kernel::FewRows;
  const bool direct = plan.kernel == Fp16x3Kernel::Direct;
  const bool async = plan.kernel == Fp16x3Kernel::Async;
  const auto planes = [&](const Side& side, bool along_k, Side& result, int64_t& entries,
                          int64_t& at) {
    entries = entries_of(side, problem.batch);
    result = split_planes(side, nullptr, along_k);
    at = l.bytes;
    l.bytes += workspace_aligned(entries * 2 * result.batch_stride * 2);
  };
  planes(l.sides.p, async, l.p_planes, l.p_entries, l.p_planes_at);
  if (few_rows || direct) l.bytes = 0;
  planes(l.sides.q, direct || async, l.q_planes, l.q_entries, l.q_planes_at);
  if (few_rows)
    l.bytes = workspace_aligned(l.q_entries * few_rows_bytes(l.sides.q.rows, problem.k));
  l.p_scales_at = l.bytes;
  if (!few_rows) l.bytes += workspace_aligned(l.p_entries * l.sides.p.rows * 8);
  l.q_scales_at = l.bytes;
  l.bytes += workspace_aligned(l.q_entries * l.sides.q.rows * 8);
  l.squares_m = blocks_over(problem.m, 64), l.squares_n = blocks_over(problem.n, 64);
  l.squares = l.squares_m * l.squares_n * problem.batch;
  l.guard_at = l.bytes;
  l.bytes += workspace_aligned((2 + l.squares) * 4);
  l.hand_over_at = l.bytes;
  if (plan.wraps_around) l.bytes += workspace_aligned(hand_over_words_bytes(plan.blocks));
  const auto beside = [&](const Side& side, int64_t entries, int64_t& extents_at, int64_t& at) {
    extents_at = at = l.bytes;
    if (!lies_beside(side)) return;
    l.bytes += workspace_aligned(entries * side.rows * int64_t{sizeof(RowExtent)});
    at = l.bytes;
    l.bytes += workspace_aligned(panels_of(side.rows, entries) * int64_t{sizeof(SplitPanel)});
  };
  if (!few_rows) {
    beside(l.sides.p, l.p_entries, l.p_extents_at, l.p_panels_at);
    beside(l.sides.q, l.q_entries, l.q_extents_at, l.q_panels_at);
  }
  l.zero_bytes = l.bytes - l.guard_at;
  l.squares_at = l.bytes;
  l.bytes += workspace_aligned(l.squares * 4);
  l.marks_at = l.bytes;
  l.bytes += l.squares * GUARD_MARK_BYTES;
  l.totals_at = l.bytes;
  if (plan.wraps_around || (segment_count(problem.k) > 1 && !few_rows))
    l.bytes += int64_t{plan.blocks} * tile.block_p * tile.block_q * 4;
  return l;
}

}  // namespace tiled
