// The figures of the textbook, every one of them: Kirk and Hwu, "Programming Massively Parallel
// Processors", chapter 5, and courses on it.
#include <gtest/gtest.h>

#include <cmath>

#include "planned.h"

namespace tiled::test {
namespace {

// 2 flops for 2 loads of 4 bytes: 0.25 flop/byte at 86.4 GB/s.
TEST(Textbook, NaiveOnG80IsBoundByMemory) {
  const Roofline bound =
      roofline(device("g80"), /*bytes=*/8, /*flops=*/2, device("g80").fp32_flops);
  EXPECT_DOUBLE_EQ(bound.flops_bound, 21.6 * GIGA);
  EXPECT_EQ(bound.bound, "memory");
  EXPECT_NEAR(device("g80").fp32_flops, 367 * GIGA, 1);
}

// The report finds the same in a large product, where the 4 bytes of each sum stored no longer
// count beside its 8 bytes for each k.
TEST(Textbook, NaiveReportsOneFlopForEachLoad) {
  const PlanReport r = report_of("g80", Algo::Naive, problem_of(1024, 1024, 1 << 20));
  EXPECT_EQ(r.flops_per_load, 1);
  EXPECT_EQ(r.tile_bytes, 1024. * 1024 * ((1 << 20) * 8. + 4));
  EXPECT_NEAR(r.tile_roofline.flops_bound / GIGA, 21.6, 1e-4);
}

// Traffic divided by 16: 345.6 GF/s, still below the peak of 367.
TEST(Textbook, Tile16OnG80) {
  const Roofline bound = roofline(device("g80"), 8. / 16, 2, device("g80").fp32_flops);
  EXPECT_DOUBLE_EQ(bound.flops_bound, 345.6 * GIGA);
  EXPECT_EQ(bound.bound, "memory");

  const PlanReport r = report_of("g80", Algo::SharedTile16, problem_of(1024, 1024, 1 << 20));
  EXPECT_NEAR(r.tile_roofline.flops_bound / GIGA, 345.6, 0.01);
}

TEST(Textbook, NaiveAndTile16At150GigabytesASecond) {
  const DeviceInfo fermi = device("fermi");
  EXPECT_EQ(fermi.memory_bandwidth, 150 * GIGA);
  EXPECT_DOUBLE_EQ(roofline(fermi, 8, 2, fermi.fp32_flops).flops_bound, 37.5 * GIGA);
  EXPECT_DOUBLE_EQ(roofline(fermi, 8. / 16, 2, fermi.fp32_flops).flops_bound, 600 * GIGA);
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

// 16 KiB of shared memory would hold 8 blocks of 2 KiB; 768 threads hold 3 of 256.
TEST(Textbook, Tile16OnG80IsLimitedByThreads) {
  const Occupancy o = occupancy(device("g80"), {256, 0, 2 * KIB});
  EXPECT_EQ(o.by_shared, 8);
  EXPECT_EQ(o.by_threads, 3);
  EXPECT_EQ(o.by_blocks, 8);
  EXPECT_EQ(o.by_registers, -1);
  EXPECT_EQ(o.blocks_per_sm, 3);
  EXPECT_EQ(o.limit, "threads");
  EXPECT_EQ(o.shared_bytes_per_sm, 6 * KIB);
  EXPECT_EQ(o.threads_per_sm, 768);
  EXPECT_EQ(o.fraction, 1);
}

TEST(Textbook, TheEleventhRegisterCostsAThirdOfTheThreads) {
  const Occupancy ten = occupancy(device("g80"), {256, 10, 2 * KIB});
  EXPECT_EQ(ten.threads_per_sm, 768);
  const Occupancy eleven = occupancy(device("g80"), {256, 11, 2 * KIB});
  EXPECT_EQ(eleven.threads_per_sm, 512);
  EXPECT_EQ(eleven.limit, "registers");
  EXPECT_DOUBLE_EQ(eleven.fraction, 2. / 3);
}

TEST(Textbook, BlocksOfFiveKibibytesOnG80) {
  EXPECT_EQ(occupancy(device("g80"), {64, 0, 5 * KIB}).blocks_per_sm, 3);
  EXPECT_EQ(occupancy(device("g80"), {64, 0, 5 * KIB}).limit, "shared memory");
}

TEST(Textbook, ThreadsOfGt200) {
  EXPECT_EQ(device("gt200").threads_per_sm, 1024);
  EXPECT_EQ(occupancy(device("gt200"), {256, 0, 2 * KIB}).by_threads, 4);
}

TEST(Textbook, TilesOnFermi) {
  const Occupancy wide = occupancy(device("fermi"), {1024, 0, 8 * KIB});
  EXPECT_EQ(wide.blocks_per_sm, 1);
  EXPECT_EQ(wide.limit, "threads");

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

// c[i] = a[i] + b[i] in fp64: 24 bytes for one flop.
TEST(Textbook, VectorAdditionOnK40) {
  const DeviceInfo k40 = device("k40");
  const Roofline bound = roofline(k40, 24, 1, k40.fp64_flops);
  EXPECT_DOUBLE_EQ(bound.flops_bound, 12 * GIGA);
  EXPECT_EQ(bound.bound, "memory");
  EXPECT_NEAR(k40.fp64_flops, 1.43e12, 0.005e12);
  EXPECT_EQ(std::round(1000 * bound.flops_bound / k40.fp64_flops) / 10, 0.8);  // %
}

// Blocks of 192 threads instead of 256: as many threads in flight, but a barrier stalls fewer of
// them, and two more blocks can run meanwhile.
TEST(Textbook, FewerThreadsInABlockMeanMoreBlocks) {
  const Occupancy large = occupancy(device("fermi"), {256, 0, 2 * KIB});
  const Occupancy half = occupancy(device("fermi"), {192, 0, 2 * KIB});
  EXPECT_EQ(large.threads_per_sm, half.threads_per_sm);
  EXPECT_EQ(large.blocks_per_sm, 6);
  EXPECT_EQ(half.blocks_per_sm, 8);
}

}  // namespace
}  // namespace tiled::test
