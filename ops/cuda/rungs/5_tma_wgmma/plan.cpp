// Rung tma_wgmma as the planner sees it.
#include "cuda/plan/kernel_name.h"
#include "cuda/plan/rung.h"
#include "cuda/plan/tma.h"
#include "cuda/rungs/5_tma_wgmma/tile.h"

namespace tiled {
namespace {

void ways(const Problem&, const DeviceInfo&, Consider consider) { consider(Way(), BY_NAME_ONLY); }

Plan plan(const Problem& problem, const DeviceInfo&, const Way&) {
  return plan_lesson<TmaWgmmaTile>(Algo::TmaWgmma, problem);
}

// A lane of wgmma has pairs of columns in two rows of every 8 columns.
Description describe(const Problem& problem, const DeviceInfo&, const Plan& plan) {
  Description d;
  d.kernel = "tma_wgmma<" + wgmma_type(problem.dtype) + ", " +
             major_names(side_a(problem), side_b(problem)) + ">";
  d.thread_m = 2, d.thread_n = plan.block_n / 4;
  return d;
}

}  // namespace

extern const Rung TMA_WGMMA = {Algo::TmaWgmma, &supports_lesson<TmaWgmmaTile>, &ways, &plan,
                               &describe};

}  // namespace tiled
