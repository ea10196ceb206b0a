// Pieces of C's rows, as long as finish() takes them, shared out over threads.
#include "cpu/tree.h"

#include <algorithm>

#include "cpu/finish.h"
#include "cpu/float_mode.h"

namespace tiled::cpu {
namespace {

struct Work {
  const TreePass& pass;
  const ChainTable& chains;
  int64_t reals, bytes;  // of an accumulator, and of each of its reals
  int64_t columns;       // of a piece
  int64_t pieces;        // of a row
};

// The tree of `count` reals side by side: `waiting` holds sums that wait for their neighbours, the
// root in its first row.
template <typename Real>
void add_tree(const TreePass& pass, int64_t reals, int64_t at, int64_t count,
              Real (&waiting)[MOST_WAITING][FINISH_ROW_BYTES / sizeof(Real)]) {
  int top = 0;
  for (int32_t part = 0; part < pass.parts; ++part) {
    const Real* sums = static_cast<const Real*>(pass.sums) + (part * pass.part_stride + at) * reals;
    int additions = pass.additions[part];
    const Real* right = sums;
    for (; additions > 0; --additions) {
      Real* left = waiting[top - 1];
      for (int64_t j = 0; j < count; ++j) left[j] = left[j] + right[j];
      right = left;
      --top;
    }
    if (right == sums) std::copy(sums, sums + count, waiting[top]);
    ++top;
  }
}

void run_pieces(void* state, int64_t begin, int64_t end) {
  const IeeeMode mode;
  const Work& work = *static_cast<const Work*>(state);
  const TreePass& pass = work.pass;
  const Problem& p = pass.problem;
  const Strides c = {p.c.batch_stride, p.c.row_stride, p.c.col_stride};
  union {
    alignas(64) float floats[MOST_WAITING][FINISH_ROW_BYTES / sizeof(float)];
    double doubles[MOST_WAITING][FINISH_ROW_BYTES / sizeof(double)];
  } waiting;
  for (int64_t index = begin; index < end; ++index) {
    const int64_t row = index / work.pieces, entry = row / p.m, i = row % p.m;
    const int64_t j = index % work.pieces * work.columns;
    const int64_t columns = std::min(work.columns, p.n - j);
    const int64_t at = entry * pass.entry_stride + i * pass.pitch + j;
    const int64_t count = columns * work.reals;
    if (work.bytes == sizeof(float))
      add_tree(pass, work.reals, at, count, waiting.floats);
    else
      add_tree(pass, work.reals, at, count, waiting.doubles);
    char* to = static_cast<char*>(p.c.data) +
               (entry * c.batch + i * c.row + j * c.col) * size_of(p.epilogue.out_dtype);
    finish(p.epilogue, work.chains, reinterpret_cast<char*>(&waiting), 0, entry, {i, i + 1},
           {j, j + columns}, to, c);
  }
}

}  // namespace

void add_parts(const TreePass& pass, const ParallelFor& parallel) {
  const Problem& p = pass.problem;
  const int64_t reals = is_complex(p.dtype) ? 2 : 1;
  const int64_t bytes = accumulator_bytes(p.dtype) / reals;
  const int64_t columns = FINISH_ROW_BYTES / (reals * bytes);
  const int64_t pieces = ceil_div(p.n, columns);
  Work work = {pass, *chosen_level().chains, reals, bytes, columns, pieces};
  parallel.run(p.batch * p.m * pieces, run_pieces, &work);
}

}  // namespace tiled::cpu
