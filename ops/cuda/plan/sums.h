// Sums of segments that were shared out: where they wait, and the kernel that adds them.
#pragma once

#include <algorithm>

#include "cuda/plan/plan.h"

namespace tiled {

// [segments][batch][rows][pitch] of fp32 in the order of C's elements: rows lie along n, or m.
struct SumsLayout {
  bool along_m;
  int64_t segments;  // none for K = 0: every element is +0
  int64_t rows, columns;
  int64_t pitch, entry;  // elements: of a row, of a batch entry

  int64_t bytes(int64_t batch) const { return entry * batch * segments * 4; }
};

inline SumsLayout sums_layout(const Problem& problem, int64_t segments) {
  SumsLayout l{};
  l.along_m = problem.c.row_stride == 1 && problem.c.col_stride != 1;
  l.segments = segments;
  l.rows = l.along_m ? problem.n : problem.m, l.columns = l.along_m ? problem.m : problem.n;
  l.pitch = (l.columns + 3) / 4 * 4;
  l.entry = l.rows * l.pitch;
  return l;
}

constexpr int SUMS_THREADS = 256;
constexpr int SUMS_VECTOR = 4;  // elements of a thread, neighbours in a row

inline Step sums_step(const Problem& problem, const SumsLayout& layout) {
  constexpr int64_t MOST_BLOCKS = 65536;  // of an entry; they go on by this stride
  Step step{};
  step.work = Work::Sums;
  step.threads_x = SUMS_THREADS, step.threads_y = 1;
  step.grid_x =
      std::min(blocks_over(layout.rows * (layout.pitch / SUMS_VECTOR), SUMS_THREADS), MOST_BLOCKS);
  step.grid_y = static_cast<int32_t>(std::min(problem.batch, MAX_GRID_Y));
  return step;
}

}  // namespace tiled
