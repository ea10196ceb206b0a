// Plans of scaled products: which rung takes them, by which tiles, and what is copied.
#include <gtest/gtest.h>

#include <tuple>

#include "cuda/plan/copies.h"
#include "cuda/plan/tma.h"
#include "planned.h"

namespace tiled::test {
namespace {

// A and B as the layout says; scales by A's rows and B's blocks.
Problem scaled(const char* layout, int64_t m, int64_t n, int64_t k, DType b = DType::Float8E4M3FN) {
  Problem p = tensor_problem(layout, m, n, k, DType::Float8E4M3FN);
  p.arithmetic = Arithmetic::Fp8;
  p.epilogue.out_dtype = DType::BFloat16;
  p.c.alignment = alignment_of(nullptr, DType::BFloat16, n, 1, 0);
  const int64_t blocks = blocks_over(k, SCALE_BLOCK);
  p.scales = {{nullptr, blocks, 1, 0, Scaling::Block1x128},
              {nullptr, blocks, 1, 0, Scaling::Block128x128},
              b,
              false};
  return p;
}

const std::tuple<int64_t, int64_t, int64_t> SIZES[] = {
    {4096, 4096, 4096}, {16, 14336, 4096}, {1, 1, 1}, {130, 257, 304}, {3, 5, 40000}};

TEST(ScaledPlans, AreOfTheirOwnTiles) {
  const DeviceInfo h100 = device("h100");
  for (const auto& [m, n, k] : SIZES) {
    const Problem p = scaled("nt", m, n, k);
    EXPECT_EQ(make_plan(p, h100).algo, Algo::Hopper);
    int ways = 0;
    for (const HopperPlan& way : hopper_plans(p, h100)) {
      const HopperTileInfo& tile = hopper_tile(way.tile);
      ++ways;
      EXPECT_TRUE(tile.of_scaled);
      EXPECT_FALSE(way.split_k);  // there is one total
      const Plan plan = plan_with(Algo::Hopper, p, h100, way);
      const Step& step = plan.main_step();
      EXPECT_EQ(step.work, Work::Product);
      EXPECT_EQ(step.workspace_bytes, 0);
      EXPECT_LE(step.shared_bytes * tile.blocks_per_sm, 227 * 1024);
      EXPECT_EQ(plan.block_k, SCALE_BLOCK);
    }
    EXPECT_GT(ways, 0);
  }
}

TEST(ScaledPlans, AreOfHopperAlone) {
  const Problem p = scaled("nt", 64, 64, 64);
  for (const char* name : {"h100", "a100", "rtx4090"}) {
    const DeviceInfo d = device(name);
    for (const Rung* rung : ladder())
      EXPECT_EQ(supports(rung->algo, p, d), rung->algo == Algo::Hopper && d.capability == 90);
  }
}

TEST(ScaledPlans, LeaveOthersTheirTiles) {
  const DeviceInfo h100 = device("h100");
  for (const HopperPlan& way :
       hopper_plans(tensor_problem("nt", 4096, 4096, 4096, DType::BFloat16), h100))
    EXPECT_FALSE(hopper_tile(way.tile).only_bytes);
}

TEST(ScaledPlans, CopyWhatDoesNotLieAlongK) {
  const DeviceInfo h100 = device("h100");
  const auto copies = [&](const Problem& p) {
    const Plan plan = make_plan(p, h100);
    const Sides read = sides_of(problem_as_read(p, plan), plan.swap_ab);
    EXPECT_FALSE(is_mn_major(read.p) || is_mn_major(read.q));
    return (plan.copy_p != CopyTo::Nothing) + (plan.copy_q != CopyTo::Nothing);
  };
  EXPECT_EQ(copies(scaled("nt", 256, 512, 1024)), 0);
  EXPECT_EQ(copies(scaled("nn", 256, 512, 1024)), 1);
  EXPECT_EQ(copies(scaled("tt", 256, 512, 1024)), 1);
  EXPECT_EQ(copies(scaled("tn", 256, 512, 1024)), 2);
  EXPECT_EQ(copies(scaled("nt", 256, 512, 1000)), 2);  // rows that are no 16 bytes apart
}

TEST(ScaledPlans, OfGroups) {
  const DeviceInfo h100 = device("h100");
  Problem p = scaled("nt", 16384, 1536, 4096);
  p.batch = 64;
  p.groups.shared = Shared::M;
  p.b.batch_stride = 1536 * 4096;
  EXPECT_EQ(make_plan(p, h100).algo, Algo::Hopper);
  for (const HopperPlan& way : hopper_plans(p, h100))
    EXPECT_TRUE(hopper_tile(way.tile).of_scaled_groups);
}

TEST(ScaledPlans, OfGroupsOfK) {
  const DeviceInfo h100 = device("h100");
  for (const char* layout : {"nt", "nn", "tn", "tt"}) {
    Problem p = scaled(layout, 768, 2048, 32768 + 5);
    p.batch = 64, p.a.batch_stride = p.b.batch_stride = 0;
    share_out(p, {Shared::K, /*wide=*/false, nullptr});
    ASSERT_TRUE(supports(Algo::Hopper, p, h100));
    const Plan plan = make_plan(p, h100);
    EXPECT_TRUE(hopper_tile(plan.way.as<HopperPlan>().tile).of_scaled_groups);
    EXPECT_EQ(plan.copy_p, CopyTo::Spaced);
    EXPECT_EQ(plan.copy_q, CopyTo::Spaced);
    const Problem read = problem_as_read(p, plan);
    EXPECT_EQ(read.k, (256 + 64) * 128);
    EXPECT_EQ(plan.workspace_bytes, (768 + 2048) * read.k);
    EXPECT_TRUE(tma_reads(side_a(read), read) && tma_reads(side_b(read), read));
    p.k = MOST_OF_TMA - 1;  // with what lies between groups it is longer than TMA counts
    EXPECT_FALSE(supports(Algo::Hopper, p, h100));
  }
}

TEST(ScaledPlans, AreRememberedByDtypes) {
  const DeviceInfo h100 = device("h100");
  const Problem p = scaled("nt", 64, 64, 64), mixed = scaled("nt", 64, 64, 64, DType::Float8E5M2);
  EXPECT_EQ(make_plan(p, h100).algo, make_plan(mixed, h100).algo);
}

}  // namespace
}  // namespace tiled::test
