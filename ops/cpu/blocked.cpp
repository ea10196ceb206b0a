// The default product: regions of C shared out over threads.
#include "cpu/blocked.h"

#include "cpu/region.h"

namespace tiled::cpu {
namespace {

void run_regions(void* state, int64_t begin, int64_t end) {
  const Blocking& x = *static_cast<const Blocking*>(state);
  for (int64_t index = begin; index < end; ++index) {
    const int64_t parts = x.parts_m * x.parts_n;
    const int64_t part = index % parts;
    const Range rows = piece(x.m, x.parts_m, part / x.parts_n);
    const Range cols = piece(x.n, x.parts_n, part % x.parts_n, x.kernels->lanes);
    if (rows.size() > 0 && cols.size() > 0) Region(x, index / parts, rows, cols).run();
  }
}

}  // namespace

void mm_blocked(const Problem& problem, const ParallelFor& parallel, const Level& level) {
  if (problem.batch == 0 || problem.m == 0 || problem.n == 0) return;
  Blocking blocking = choose_blocking(problem, level, parallel.threads);
  if (blocking.regions() == 1 || parallel.threads == 1) {
    run_regions(&blocking, 0, blocking.regions());
  } else {
    parallel.run(blocking.regions(), run_regions, &blocking);
  }
}

}  // namespace tiled::cpu
