// Where rung fp16x3 keeps its planes, scales and lists; pure, for planner and launch.
#pragma once

#include "cuda/engine/fp16x3/plan.h"
#include "cuda/plan/repack_layout.h"

namespace tiled {

// Whether rows lie beside each other, so that neighbours in memory are those of one k.
inline bool lies_beside(const Side& side) {
  return side.row_stride == 1 && side.rows > 1 && side.k_stride != 1;
}

// The fp16 planes of an operand as an operand: entry 2 i is hi of batch entry i and entry 2 i + 1
// lo. They lie as the operand does, along k or rows beside each other, unless `along_k`; they have
// no address yet.
inline Side split_planes(const Side& side, bool along_k = false) {
  const bool side_by_side = !along_k && lies_beside(side);
  const int64_t along = side_by_side ? side.rows : side.k;
  const int64_t pitch = (along + 63) / 64 * 64;  // whole cache lines
  Side planes = side;
  planes.data = nullptr;
  planes.row_stride = side_by_side ? 1 : pitch;
  planes.k_stride = side_by_side ? pitch : 1;
  planes.batch_stride = (side_by_side ? side.k : side.rows) * pitch;
  planes.alignment = 16;
  return planes;
}

// Groups (core/problem.h) begin anywhere, and what is kept of them at multiples of 64 rows, or of
// K: the one that begins at `begin` at place_of_group(), and all of them have so many places.
constexpr int64_t place_of_group(int64_t begin, int64_t group) {
  return (begin + 63) / 64 * 64 + 64 * group;
}
constexpr int64_t places_of_groups(int64_t size, int64_t groups) {
  return place_of_group(size, groups);
}

// split_beside.cu takes rows in panels of so many. Blocks that share a panel's K add up what its
// rows lose; all zero before.
constexpr int SPLIT_PANEL = 128;
struct SplitPanel {
  unsigned long long lost[SPLIT_PANEL];  // units
  uint32_t ended;                        // blocks that have added theirs
};
inline int64_t panels_of(int64_t rows, int64_t entries) {
  return entries * blocks_over(rows, SPLIT_PANEL);
}

constexpr int64_t GUARD_MARK_BYTES = 512;  // of a square, a bit for each element

// The squares of the guard along M and N, and sheets of them: batch entries, but for groups that
// write to one matrix.
struct GuardSquares {
  int64_t m, n, sheets;
  int64_t count() const { return m * n * sheets; }
};
inline GuardSquares guard_squares(const Problem& problem) {
  const Shared shared = problem.groups.shared;
  const auto along = [&](int64_t size, bool is_shared) {
    return blocks_over(is_shared ? places_of_groups(size, problem.batch) : size,
                       int64_t{GUARD_SQUARE});
  };
  const bool of_rows = shared == Shared::M, of_columns = shared == Shared::N;
  return {along(problem.m, of_rows), along(problem.n, of_columns),
          of_rows || of_columns ? 1 : problem.batch};
}

// P and Q in parts. Where P is read as it lies Q comes along k; async.cu has both so, and what
// groups share out is so, since a box of TMA begins at a multiple of 16 bytes.
inline Side planes_of(Side side, const Fp16x3Plan& plan, bool along_k) {
  if (side.groups_of_k > 0) side.k = places_of_groups(side.k, side.groups_of_k);
  return split_planes(side, along_k || side.is_shared || plan.kernel == Fp16x3Kernel::Async);
}
inline Side planes_of_p(const Side& p, const Fp16x3Plan& plan) {
  return planes_of(p, plan, /*along_k=*/false);
}
inline Side planes_of_q(const Side& q, const Fp16x3Plan& plan) {
  return planes_of(q, plan, plan.kernel == Fp16x3Kernel::Direct);
}

}  // namespace tiled
