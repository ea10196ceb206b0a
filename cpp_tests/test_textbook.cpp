// The figures of the textbook that reports have: Kirk and Hwu, "Programming Massively Parallel
// Processors", chapter 5, and courses on it. Those of occupancy and roofline by themselves are in
// python_tests/test_explain.py.
#include <gtest/gtest.h>

#include "planned.h"

namespace tiled::test {
namespace {

// 2 flops for 2 loads of 4 bytes, 0.25 flop/byte at 86.4 GB/s: in a large product, where the 4
// bytes of each sum stored no longer count beside its 8 bytes for each k.
TEST(Textbook, NaiveReportsOneFlopForEachLoad) {
  const PlanReport r = report_of("g80", Algo::Naive, problem_of(1024, 1024, 1 << 20));
  EXPECT_EQ(r.flops_per_load, 1);
  EXPECT_EQ(r.tile_bytes, 1024. * 1024 * ((1 << 20) * 8. + 4));
  EXPECT_NEAR(r.tile_roofline.flops_bound / GIGA, 21.6, 1e-4);
}

// Traffic divided by 16: 345.6 GF/s, still below the peak of 367.
TEST(Textbook, Tile16OnG80) {
  const PlanReport r = report_of("g80", Algo::SharedTile16, problem_of(1024, 1024, 1 << 20));
  EXPECT_NEAR(r.tile_roofline.flops_bound / GIGA, 345.6, 0.01);
}

TEST(Textbook, OnePhaseOfTile16) {
  const PlanReport r = report_of("fermi", Algo::SharedTile16, problem_of(1024, 1024, 1024));
  EXPECT_EQ(r.loads_per_step, 512);
  EXPECT_EQ(r.flops_per_step, 8192);
  EXPECT_EQ(r.flops_per_load, 16);
  EXPECT_EQ(r.plan.main_step().shared_bytes, 2 * KIB);
  EXPECT_EQ(r.steps, 64);
}

TEST(Textbook, OnePhaseOfTile32) {
  const PlanReport r = report_of("fermi", Algo::SharedTile32, problem_of(1024, 1024, 1024));
  EXPECT_EQ(r.loads_per_step, 2048);
  EXPECT_EQ(r.flops_per_step, 65536);
  EXPECT_EQ(r.flops_per_load, 32);
  EXPECT_EQ(r.plan.main_step().shared_bytes, 8 * KIB);
}

// A tile 2^k wide does 2^k flops for each element loaded.
TEST(Textbook, FlopsForEachLoadAreTheTilesWidth) {
  for (Algo algo : {Algo::SharedTile8, Algo::SharedTile16, Algo::SharedTile32}) {
    const PlanReport r = report_of("k40", algo, problem_of(256, 256, 256));
    EXPECT_EQ(r.flops_per_load, r.plan.block_n) << name_of(algo);
    EXPECT_EQ(r.plan.block_m, r.plan.block_n) << name_of(algo);
  }
  EXPECT_EQ(report_of("k40", Algo::SharedTile8, problem_of(9, 9, 9)).flops_per_load, 8);
}

TEST(Textbook, TilesOnFermi) {
  const PlanReport r = report_of("fermi", Algo::SharedTile16, problem_of(1024, 1024, 1024));
  // With the registers of its own time the tile fits six times; today's compiler does not build
  // for this device, so none are counted.
  EXPECT_FALSE(r.resources);
  EXPECT_EQ(r.occupancy.blocks_per_sm, 6);
  EXPECT_EQ(r.pending_loads, 3072);
}

TEST(Textbook, FermiWith16KibibytesOfSharedMemory) {
  DeviceInfo fermi = device("fermi");
  EXPECT_EQ(fermi.threads_per_sm, 1536);
  EXPECT_EQ(fermi.shared_bytes_per_sm, 48 * KIB);
  fermi.shared_bytes_per_sm = fermi.shared_bytes_per_block = 16 * KIB;
  const Occupancy narrow = occupancy(fermi, {256, 0, 2 * KIB});
  EXPECT_EQ(narrow.by_shared, 8);
  EXPECT_EQ(narrow.by_shared * 512, 4096);  // pending loads, if threads did not limit them
  const Occupancy wide = occupancy(fermi, {1024, 0, 8 * KIB});
  EXPECT_EQ(wide.by_shared, 2);
}

}  // namespace
}  // namespace tiled::test
