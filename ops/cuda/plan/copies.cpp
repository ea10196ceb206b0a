#include "cuda/plan/copies.h"

#include <algorithm>

namespace tiled {

CopyGrid copy_grid_of(const Side& from, const Side& to, const Problem& problem) {
  constexpr int64_t MAX_BLOCKS = 1 << 30;
  const bool along_rows = to.row_stride == 1 && to.k_stride != 1;
  const int64_t from_row = along_rows ? from.k_stride : from.row_stride;
  const int64_t from_column = along_rows ? from.row_stride : from.k_stride;
  CopyGrid g{};
  g.rows = along_rows ? to.k : to.rows, g.columns = along_rows ? to.rows : to.k;
  g.spaced = to.k != from.k;  // a copy that is not has no more of K than its operand
  const bool aligned = problem.dtype == DType::Float32 && from.alignment == 16;
  const bool is_byte = size_of(problem.dtype) == 1;
  g.by = from_column == 1 && g.columns > 1 ? CopyBy::Rows
         : aligned && from_row == 1        ? CopyBy::Vectors
         : is_byte && from_row == 1        ? CopyBy::Bytes
                                           : CopyBy::Squares;
  const int64_t vectors = blocks_over(g.columns, 16 / size_of(problem.dtype));
  g.across = 1;
  const int64_t widest = g.spaced ? LINE_BYTES / 16 : COPY_THREADS;
  while (g.across < widest && g.across < vectors) g.across *= 2;
  int64_t wide = COPY_VECTOR_SIDE, tall = COPY_VECTOR_SIDE;
  if (g.by == CopyBy::Rows) wide = g.across, tall = COPY_THREADS / g.across * COPY_ROWS_A_THREAD;
  if (g.by == CopyBy::Squares) wide = COPY_SQUARE * COPY_SQUARES, tall = COPY_SQUARE;
  if (g.by == CopyBy::Bytes) wide = tall = COPY_BYTE_SIDE;
  if (g.spaced) tall = COPY_SPACED_ROWS;
  g.blocks_x = static_cast<int32_t>(blocks_over(g.by == CopyBy::Rows ? vectors : g.columns, wide));
  // As many as there is work for, and all of them together within a grid.
  const auto at_most = [](int64_t work, int64_t blocks) {
    return static_cast<int32_t>(std::clamp<int64_t>(MAX_BLOCKS / std::max<int64_t>(blocks, 1), 1,
                                                    std::max<int64_t>(work, 1)));
  };
  g.blocks_y = at_most(blocks_over(g.rows, tall), g.blocks_x);
  g.blocks_z = at_most(entries_of(from, problem.batch), int64_t{g.blocks_x} * g.blocks_y);
  return g;
}

void add_copies(Plan& plan, const Problem& problem) {
  const Sides from = sides_of(problem, plan.swap_ab);
  Step step{};
  step.work = Work::Copy;
  step.threads_x = COPY_THREADS, step.threads_y = step.grid_y = 1;
  CopyBy by{};
  const auto add = [&](const Side& side, CopyTo to, Area area, int8_t which) {
    if (to == CopyTo::Nothing) return;
    const Side copy = copied(side, problem.dtype, to);
    const CopyGrid grid = copy_grid_of(side, copy, problem);
    const int64_t bytes = workspace_aligned(copy_bytes(copy, problem));
    plan.take(area, bytes);
    if (step.key != 0 && grid.by != by) {
      plan.add(step);
      step.key = 0, step.grid_x = 0, step.workspace_bytes = 0;
    }
    by = grid.by;
    step.key |= which, step.grid_x += grid.blocks(), step.workspace_bytes += bytes;
  };
  add(from.p, plan.copy_p, Area::P, OF_P);
  add(from.q, plan.copy_q, Area::Q, OF_Q);
  if (step.key != 0) plan.add(step);
}

Problem problem_as_read(const Problem& problem, const Plan& plan, char* workspace) {
  Problem read = problem;
  const auto replace = [&](bool is_b, CopyTo to, Area area) {
    if (to == CopyTo::Nothing) return;
    const Side s = copied(is_b ? side_b(problem) : side_a(problem), problem.dtype, to);
    const void* const data = workspace == nullptr ? nullptr : workspace + plan.at(area);
    read.k = s.k;
    if (is_b)
      read.b = {data, s.k_stride, s.row_stride, s.batch_stride, s.alignment};
    else
      read.a = {data, s.row_stride, s.k_stride, s.batch_stride, s.alignment};
  };
  replace(plan.swap_ab, plan.copy_p, Area::P);
  replace(!plan.swap_ab, plan.copy_q, Area::Q);
  return read;
}

}  // namespace tiled
