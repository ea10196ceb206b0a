// The default product: regions of C shared out over threads.
#include "cpu/blocked.h"

#include "cpu/float_mode.h"
#include "cpu/region.h"

namespace tiled::cpu {
namespace {

// A thread sets this up for its tiles, as long as it lives: where a region throws (there may be
// no memory to pack into) it is taken down as well.
class SetUp {
 public:
  explicit SetUp(const Kernels& kernels) : kernels_(kernels) {
    if (kernels_.begin != nullptr) kernels_.begin();
  }
  ~SetUp() {
    if (kernels_.end != nullptr) kernels_.end();
  }
  SetUp(const SetUp&) = delete;

 private:
  const Kernels& kernels_;
};

void run_regions(void* state, int64_t begin, int64_t end) {
  const Blocking& x = *static_cast<const Blocking*>(state);
  const IeeeMode mode;
  const SetUp set_up(*x.kernels);
  for (int64_t index = begin; index < end; ++index) {
    const int64_t parts = x.parts_m * x.parts_n;
    const int64_t part = index % parts;
    const Range rows = piece(x.m, x.parts_m, part / x.parts_n, x.kernels->row_unit);
    const Range cols = piece(x.n, x.parts_n, part % x.parts_n, x.kernels->lanes);
    if (rows.size() > 0 && cols.size() > 0) Region(x, index / parts, rows, cols).run();
  }
}

constexpr ParallelFor ALONE = {[](int64_t count, Body body, void* state) { body(state, 0, count); },
                               1};

}  // namespace

bool is_tiny(const Problem& p, const Level& level) {
  constexpr int64_t TINY = 100, TINY_PACKED[] = {512, 350};  // multiply-adds; of 1 and 2 bytes
  if (p.k == 0 || p.batch > TINY || p.m > TINY || p.n > TINY || p.k > TINY) return false;
  // Tiles of a level that has to be set up do not come one element at a time.
  const DotTable* dots = dots_of(p, level);
  if (dots != nullptr && dots->naive != nullptr && dots->kernels.begin != nullptr) return false;
  const int64_t size = size_of(p.dtype), most = size < 4 ? TINY_PACKED[size - 1] : TINY;
  return p.batch * p.m * p.n * p.k <= most;
}

void mm_blocked(const Problem& problem, const ParallelFor& parallel, const Level& level) {
  if (problem.batch == 0 || problem.m == 0 || problem.n == 0) return;
  if (is_tiny(problem, level)) return mm_naive(problem, ALONE, level);
  Blocking blocking = choose_blocking(problem, level, parallel.threads);
  if (blocking.regions() == 1 || parallel.threads == 1) {
    run_regions(&blocking, 0, blocking.regions());
  } else {
    parallel.run(blocking.regions(), run_regions, &blocking);
  }
}

}  // namespace tiled::cpu
