#include "cuda/plan/copies.h"

#include <algorithm>

namespace tiled {

Side Copies::add(const Side& from, Side to) {
  to.data = workspace_ == nullptr ? nullptr : static_cast<char*>(workspace_) + bytes_;
  bytes_ += workspace_aligned(copy_bytes(to, problem_));
  copies_[count_++] = {from, to};
  return to;
}

namespace {

CopyGrid copy_grid_of(const Copy& copy, const Problem& problem) {
  constexpr int64_t MAX_BLOCKS = 1 << 30;
  const Side &from = copy.from, &to = copy.to;
  const bool along_rows = to.row_stride == 1 && to.k_stride != 1;
  const int64_t from_row = along_rows ? from.k_stride : from.row_stride;
  const int64_t from_column = along_rows ? from.row_stride : from.k_stride;
  CopyGrid g{};
  g.rows = along_rows ? from.k : from.rows, g.columns = along_rows ? from.rows : from.k;
  const bool aligned = problem.dtype == DType::Float32 && from.alignment == 16;
  g.by = from_column == 1 && g.columns > 1 ? CopyBy::Rows
         : aligned && from_row == 1        ? CopyBy::Vectors
                                           : CopyBy::Squares;
  const int64_t vectors = blocks_over(g.columns, 16 / size_of(problem.dtype));
  g.across = 1;
  while (g.across < COPY_THREADS && g.across < vectors) g.across *= 2;
  int64_t wide = COPY_VECTOR_SIDE, tall = COPY_VECTOR_SIDE;
  if (g.by == CopyBy::Rows) wide = g.across, tall = COPY_THREADS / g.across * COPY_ROWS_A_THREAD;
  if (g.by == CopyBy::Squares) wide = COPY_SQUARE * COPY_SQUARES, tall = COPY_SQUARE;
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

}  // namespace

CopyGrids copy_grids_of(const Copies& copies, const Problem& problem) {
  CopyGrids grids{};
  for (int i = 0; i < copies.count(); ++i) grids.grid[i] = copy_grid_of(copies[i], problem);
  grids.together = copies.count() == 2 && grids.grid[0].by == grids.grid[1].by;
  return grids;
}

void add_copies(Plan& plan, const Copies& copies, const Problem& problem) {
  const auto [grids, together] = copy_grids_of(copies, problem);
  for (int i = 0; i < copies.count(); ++i) {
    Step step{};
    step.work = Work::Copy;
    step.threads_x = COPY_THREADS, step.threads_y = 1;
    step.grid_x = grids[i].blocks(), step.grid_y = 1;
    step.workspace_bytes = workspace_aligned(copy_bytes(copies[i].to, problem));
    if (together && i == 1) {
      Step& both = plan.steps[plan.step_count - 1];
      both.grid_x += step.grid_x, both.workspace_bytes += step.workspace_bytes;
    } else {
      plan.add(step);
    }
  }
  plan.workspace_bytes += copies.bytes();
}

}  // namespace tiled
