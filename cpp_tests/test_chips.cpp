// Plans are legal on every named device, whichever way is taken: within its limits, with a grid
// that covers C and a workspace whose every byte is some kernel's.
#include <gtest/gtest.h>

#include "cuda/plan/estimate.h"
#include "planned.h"

namespace tiled::test {
namespace {

void expect_legal(const Problem& p, const DeviceInfo& d, const Rung& rung, const Plan& plan) {
  EXPECT_EQ(plan.algo, rung.algo);
  EXPECT_GE(plan.step_count, 1);
  EXPECT_LE(plan.step_count, Plan::MOST_STEPS);
  EXPECT_GE(plan.tiles_m * plan.block_m, p.m);
  EXPECT_GE(plan.tiles_n * plan.block_n, p.n);
  int64_t workspace = 0;
  for (const Step& step : plan) {
    const int threads = step.threads_x * step.threads_y;
    EXPECT_GT(threads, 0) << name_of(step.work);
    EXPECT_LE(threads, d.threads_per_block) << name_of(step.work);
    EXPECT_GT(step.grid_x, 0) << name_of(step.work);
    EXPECT_LE(step.grid_x, MAX_GRID_X) << name_of(step.work);
    EXPECT_GE(step.grid_y, 1) << name_of(step.work);
    EXPECT_LE(step.grid_y, MAX_GRID_Y) << name_of(step.work);
    EXPECT_GE(occupancy(d, {threads, 0, step.shared_bytes}).blocks_per_sm, 1)
        << name_of(step.work) << " with " << step.shared_bytes << " bytes";
    EXPECT_LE(step.cluster, 8) << "more are not portable";
    if (step.cluster > 1) {
      EXPECT_EQ(step.grid_x % step.cluster, 0);
    }
    workspace += step.workspace_bytes;
  }
  EXPECT_EQ(plan.workspace_bytes, workspace);
}

// A way that may be chosen says what its estimate is made of.
void expect_demand(const Problem& p, const Rung& rung, const Plan& plan) {
  constexpr double ONE_TURN = 16 * 64;  // fp16x3's few rows: so many warps have a chunk each
  const Demand& demand = plan.demand;
  const size_t variants = rung.variants != nullptr ? rung.variants().size() : 1;
  EXPECT_GE(demand.variant, 0);
  EXPECT_LT(static_cast<size_t>(demand.variant), variants);
  EXPECT_GE(demand.resident, 1);
  EXPECT_TRUE(demand.cluster_p >= 1 && demand.cluster_q >= 1);
  EXPECT_GE(demand.units, 1);
  EXPECT_GT(demand.loaded_bytes, 0);
  EXPECT_TRUE(demand.off_sector_bytes >= 0 && demand.off_sector_bytes <= demand.loaded_bytes);
  EXPECT_TRUE(demand.filled > 0 && demand.filled <= 1) << demand.filled;
  EXPECT_GE(demand.ends, 1);
  EXPECT_GT(demand.line_loads, 0);
  EXPECT_GE(demand.again_bytes, 0);
  EXPECT_GE(demand.store_lines, 0);
  // A pass over K is no longer than K. Two are made only by fp16x3's few rows, and only where a
  // block has no room for all: then it comes to its end more than twice.
  const bool twice = plan.algo == Algo::Fp16x3 && demand.ends > 2;
  const double pass = demand.depth / (twice ? 2 : 1);
  EXPECT_TRUE(pass > 0 && pass < static_cast<double>(p.k) + ONE_TURN) << demand.depth;
}

TEST(Plans, AreLegalOnEveryNamedDevice) {
  std::mt19937_64 random(18);
  int of_rung[std::size(ALL_ALGOS)] = {};
  for (int i = 0; i < 150; ++i) {
    const Problem p = drawn_problem(random);
    for (const std::string& name : device_names()) {
      const DeviceInfo d = device(name.c_str());
      for (const Rung* rung : ladder())
        for (const Plan& plan : plans_of(rung->algo, p, d)) {
          SCOPED_TRACE(testing::Message()
                       << name_of(rung->algo) << " on " << name << ": " << p.batch << " of " << p.m
                       << " x " << p.n << " x " << p.k << ' ' << name_of(p.dtype));
          expect_legal(p, d, *rung, plan);
          if (rung->use == Use::Chosen) expect_demand(p, *rung, plan);
          ++of_rung[static_cast<int>(rung->algo)];
          if (HasFailure()) return;
        }
    }
  }
  for (const Rung* rung : ladder())
    EXPECT_GT(of_rung[static_cast<int>(rung->algo)], 0) << name_of(rung->algo);
}

}  // namespace
}  // namespace tiled::test
