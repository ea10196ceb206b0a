// Plans of products whose groups share out a size: which rungs take them, what is copied, how C
// leaves, and how large a grid may be.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "planned.h"

namespace tiled::test {
namespace {

constexpr int64_t GROUPS = 64;

// Rows, columns or K of a product in bf16 shared out, everything contiguous; `shared` is their sum.
Problem grouped(Shared shared, int64_t m, int64_t n, int64_t k) {
  Problem p = tensor_problem("nn", m, n, k, DType::BFloat16);
  p.batch = GROUPS;
  p.a.batch_stride = shared == Shared::N ? m * k : 0;
  p.b.batch_stride = shared == Shared::M ? k * n : 0;
  p.c.batch_stride = shared == Shared::K ? m * n : 0;
  share_out(p, {shared});
  return p;
}

const std::vector<Problem>& problems() {
  static const std::vector<Problem> all = {
      grouped(Shared::M, 16384, 1536, 4096), grouped(Shared::N, 1536, 16384, 4096),
      grouped(Shared::K, 1536, 4096, 16384), grouped(Shared::M, 128, 768, 2048)};
  return all;
}

TEST(GroupedPlans, AreHoppersOnHopper) {
  for (const Problem& p : problems()) {
    EXPECT_EQ(make_plan(p, device("h100")).algo, Algo::Hopper);
    for (const Rung* rung : ladder())
      EXPECT_TRUE((rung->takes & TAKES_GROUPS) != 0 || !supports(rung->algo, p, device("h100")));
  }
}

// Kernels read the ends: the host waits for none. So whatever a device computes it computes of
// groups, in the same arithmetic.
TEST(GroupedPlans, AreThereForWhateverADeviceComputes) {
  std::vector<std::pair<DType, Arithmetic>> kinds = {{DType::Float16, Arithmetic::Tensor},
                                                     {DType::BFloat16, Arithmetic::Tensor},
                                                     {DType::Float32, Arithmetic::Tf32},
                                                     {DType::Float32, Arithmetic::Fp16x3}};
  for (const DType dtype : ALL_DTYPES) kinds.emplace_back(dtype, Arithmetic::Fma);
  for (const std::string& name : device_names()) {
    const DeviceInfo device = named_device(name).value();
    if (device.capability < 75) continue;  // for lessons on paper
    for (Problem p : problems())
      for (const auto& [dtype, arithmetic] : kinds) {
        p.dtype = p.epilogue.out_dtype = dtype, p.arithmetic = arithmetic;
        Problem plain = p;
        plain.groups = {}, plain.batch = 1;
        const Plan plan = make_plan(p, device);
        EXPECT_EQ(plan.step_count > 0, make_plan(plain, device).step_count > 0)
            << name << ' ' << name_of(dtype) << ' ' << static_cast<int>(arithmetic);
        if (plan.step_count > 0) {
          EXPECT_LT(plan.main_step().grid_x, MAX_GRID_X);
        }
      }
  }
}

// How many segments of K a group has is known on the device alone.
TEST(GroupedPlans, ShareNoSegmentsOut) {
  for (const char* const name : {"h100", "a100"}) {
    const DeviceInfo found = device(name);
    for (Problem p : {grouped(Shared::M, 24, 40, 33000), grouped(Shared::K, 24, 40, 72800)})
      for (const auto& [dtype, arithmetic] : {std::pair(DType::BFloat16, Arithmetic::Tensor),
                                              std::pair(DType::Float32, Arithmetic::Fma),
                                              std::pair(DType::Float64, Arithmetic::Fma)}) {
        p.dtype = p.epilogue.out_dtype = dtype, p.arithmetic = arithmetic;
        for (const Rung* rung : ladder()) {
          if (!supports(rung->algo, p, found)) continue;
          rung->ways(p, found, [&](const Way& way) {
            for (const Step& step : rung->plan(p, found, way)) EXPECT_NE(step.work, Work::Sums);
          });
        }
      }
  }
}

TEST(GroupedPlans, AlignWhatLiesAlongTheSharedSizeAsItsElements) {
  EXPECT_EQ(problems()[0].a.alignment, 16);  // along K, and rows are shared out
  EXPECT_EQ(problems()[1].b.alignment, 2);   // along n, which is shared out
  EXPECT_EQ(problems()[2].a.alignment, 2);   // along K, which is shared out
  EXPECT_EQ(problems()[2].b.alignment, 16);
}

TEST(GroupedPlans, AreRememberedApart) {
  const DeviceInfo h100 = device("h100");
  Problem plain = problems()[3];
  plain.groups = {};
  const Plan batch = make_plan(plain, h100), groups = make_plan(problems()[3], h100);
  EXPECT_EQ(make_plan(plain, h100).main_step().grid_x, batch.main_step().grid_x);
  EXPECT_EQ(make_plan(problems()[3], h100).demand.units, groups.demand.units);
  EXPECT_NE(batch.demand.units, groups.demand.units);
}

TEST(GroupedPlans, AreWithinLimits) {
  const DeviceInfo h100 = device("h100");
  for (const Problem& p : problems()) {
    int ways = 0;
    for (const HopperPlan& way : hopper_plans(p, h100)) {
      const HopperTileInfo& tile = hopper_tile(way.tile);
      const int cluster = way.cluster_p * way.cluster_q;
      ++ways;
      EXPECT_TRUE(tile.of_groups);
      EXPECT_FALSE(way.split_k);
      EXPECT_GT(way.blocks, 0);
      EXPECT_EQ(way.blocks % cluster, 0);
      EXPECT_LE(way.blocks, h100.multiprocessors * tile.blocks_per_sm);
      // Every group may end with a part of a tile.
      const Units units = units_of(p, way);
      if (p.groups.shared == Shared::K)
        EXPECT_EQ(units.count, units.clusters_p * units.clusters_q * GROUPS);
      else
        EXPECT_GE(units.clusters_p + units.clusters_q, GROUPS);
      EXPECT_EQ(plan_with(Algo::Hopper, p, h100, way).main_step().grid_x, way.blocks);
    }
    EXPECT_GT(ways, 8);
  }
}

// A box of TMA begins at a multiple of 16 bytes, and a group at any index of the size that is
// shared out, so nothing may be contiguous along it.
TEST(GroupedPlans, CopyWhatLiesAlongTheSharedSize) {
  const DeviceInfo h100 = device("h100");
  Problem p = problems()[0];
  const auto copies = [&] {
    const Plan plan = make_plan(p, h100);
    return plan.swap_ab ? std::tuple(plan.copy_q, plan.copy_p)
                        : std::tuple(plan.copy_p, plan.copy_q);
  };
  EXPECT_EQ(copies(), std::tuple(CopyTo::Nothing, CopyTo::Nothing));
  p.a.row_stride = 1, p.a.col_stride = p.m, p.a.alignment = 2;
  EXPECT_EQ(copies(), std::tuple(CopyTo::AlongK, CopyTo::Nothing));
  p = problems()[2];  // A is contiguous along K, and B along n
  EXPECT_EQ(copies(), std::tuple(CopyTo::AlongRows, CopyTo::Nothing));
  p.a.row_stride = 1, p.a.col_stride = p.m, p.a.alignment = 16;
  EXPECT_EQ(copies(), std::tuple(CopyTo::Nothing, CopyTo::Nothing));
}

TEST(GroupedPlans, WriteByRowsWhatLiesAlongTheSharedSize) {
  const DeviceInfo h100 = device("h100");
  for (const HopperPlan& way : hopper_plans(problems()[0], h100)) EXPECT_TRUE(way.stores_by_tma);
  for (const HopperPlan& way : hopper_plans(problems()[1], h100)) EXPECT_FALSE(way.stores_by_tma);
}

}  // namespace
}  // namespace tiled::test
