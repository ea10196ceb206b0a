// Rung warp_specialized as the planner sees it.
#include "cuda/plan/kernel_name.h"
#include "cuda/plan/rung.h"
#include "cuda/plan/tma.h"
#include "cuda/rungs/6_warp_specialized/tile.h"

namespace tiled {
namespace {

void ways(const Problem&, const DeviceInfo&, Consider consider) { consider(Way(), BY_NAME_ONLY); }

Plan plan(const Problem& problem, const DeviceInfo&, const Way&) {
  return plan_lesson<WarpSpecializedTile>(Algo::WarpSpecialized, problem);
}

// A lane of wgmma has pairs of columns in two rows of every 8 columns.
Description describe(const Problem& problem, const DeviceInfo&, const Plan& plan) {
  Description d;
  d.kernel = "warp_specialized<" + wgmma_type(problem.dtype) + ", " +
             major_names(side_a(problem), side_b(problem)) + ">";
  d.thread_m = 2, d.thread_n = plan.block_n / 4;
  return d;
}

}  // namespace

extern const Rung WARP_SPECIALIZED = {Algo::WarpSpecialized, &supports_lesson<WarpSpecializedTile>,
                                      &ways, &plan, &describe};

}  // namespace tiled
