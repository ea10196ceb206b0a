// Rung few_rows: how it shares out the rows of a weight, and what every plan of it must keep.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cuda/engine/few_rows/plan.h"
#include "planned.h"

namespace tiled::test {
namespace {

// Every strip is some tile's, once; no two tiles differ by more than one, nor do two blocks.
void expect_shared_out(int count, int blocks, int rounds) {
  const FewRowsStrips s = FewRowsStrips::of(count, blocks, rounds);
  ASSERT_EQ(s.rounds(), rounds);
  std::vector<int> of_block(static_cast<size_t>(blocks), 0);
  int next = 0, lowest = count, highest = 0;
  for (int round = 0; round < rounds; ++round)
    for (int block = 0; block < blocks; ++block) {
      const StripRange range = s.tile(round, block);
      ASSERT_EQ(range.first, next) << count << ' ' << blocks << ' ' << rounds;
      const int height = range.end - range.first;
      lowest = std::min(lowest, height), highest = std::max(highest, height);
      of_block[static_cast<size_t>(block)] += height;
      next = range.end;
    }
  EXPECT_EQ(next, count);
  EXPECT_GE(lowest, s.least());
  EXPECT_LE(highest, s.most());
  EXPECT_LE(s.most() - s.least(), 1);
  EXPECT_GE(s.least(), 1);
  const auto [least, most] = std::minmax_element(of_block.begin(), of_block.end());
  EXPECT_LE(*most - *least, 1);
}

TEST(FewRowsStrips, EveryStripOnceAndEvenly) {
  for (const int blocks : {1, 2, 3, 7, 66, 131, 132})
    for (const int rounds : {1, 2, 3, 7, 8})
      for (const int more : {0, 1, 2, 5, 17, 66, 131, 132, 1000})
        expect_shared_out(blocks * rounds + more, blocks, rounds);
  expect_shared_out(17, 3, 2);
  expect_shared_out((1 << 24) + 5, 132, 8191);
}

// Every plan that the kernels could be given says this.
void expect_sound(const Problem& p, const DeviceInfo& d, const FewRowsPlan& plan) {
  const FewRowsTileInfo& tile = few_rows_tile(plan.tile);
  const int64_t rows = plan.swap_ab ? p.n : p.m;
  const FewRowsStrips strips = few_rows_strips(plan, rows);
  EXPECT_GE(int64_t{strips.count} * plan.strip, rows);
  EXPECT_GE(strips.least(), 1);
  EXPECT_EQ(strips.most(), plan.height);
  EXPECT_LE(plan.height * plan.strip, tile.block_p);
  EXPECT_GT(plan.blocks, 0);
  EXPECT_LE(plan.blocks, d.multiprocessors);
  const FewRowsStage stage = tile.stage(plan.height * plan.strip);
  EXPECT_GE(stage.ring, 3);
  // Whole patterns of the swizzle, and what is read of the last stage: wgmma's 64 rows, or 16 that
  // a warp loads.
  EXPECT_EQ(stage.bytes % 1024, 0);
  EXPECT_EQ(stage.p_box % 1024, 0);
  EXPECT_EQ(stage.q_at % 1024, 0);
  const int last = tile.by == FewRowsBy::Registers
                       ? stage.p_box * (tile.boxes - 1) + (stage.p_box + 2047) / 2048 * 2048
                       : tile.boxes * tile.p_box;
  EXPECT_GE(stage.barriers, (stage.ring - 1) * stage.bytes + last);
  EXPECT_GE(stage.barriers, stage.ring * stage.bytes);
  const Plan whole = plan_with(Algo::FewRows, p, d, plan);
  EXPECT_EQ(whole.main_step().shared_bytes, stage.barriers + 16 * stage.ring);
  EXPECT_LE(whole.main_step().shared_bytes, d.shared_bytes_per_block);
  EXPECT_EQ(whole.main_step().grid_x, plan.blocks);
  EXPECT_GE(whole.tiles_m * whole.block_m, p.m);
  EXPECT_GE(whole.tiles_n * whole.block_n, p.n);
}

TEST(FewRowsPlans, AreWithinTheHardwaresLimits) {
  const DeviceInfo d = device("h200");
  for (DType dtype : {DType::BFloat16, DType::Float32, DType::Float64})
    for (const std::string layout : {"nn", "nt", "tn"})
      for (const int m : {1, 3, 9, 33, 64, 100})
        for (const auto& [n, k] : {std::pair{0, 8},
                                   {8, 8},
                                   {200, 264},
                                   {1088, 11840},
                                   {8456, 520},
                                   {9600, 2880},
                                   {57344, 8192},
                                   {128256, 4096}})
          for (const int batch : {0, 1, 3, 150}) {
            Problem p = dtype == DType::BFloat16 ? tensor_problem(layout, m, n, k)
                                                 : problem_of(layout, m, n, k, dtype);
            p.batch = batch;
            int count = 0;
            rung_of(Algo::FewRows)->ways(p, d, [&](const Way& way) {
              SCOPED_TRACE(layout + " " + std::to_string(m) + " " + std::to_string(n) + " " +
                           std::to_string(k) + " " + std::to_string(batch));
              expect_sound(p, d, way.as<FewRowsPlan>());
              ++count;
            });
            EXPECT_TRUE(count > 0 || m > n);
          }
}

// The rung has ways for what it takes: leaves that are shared out, or that a block holds.
TEST(FewRowsPlans, HaveWaysForTheTreesThatTheyTake) {
  const DeviceInfo d = device("h200");
  int taken = 0, refused = 0;
  for (DType dtype : {DType::BFloat16, DType::Float32, DType::Float64})
    for (const bool tf32 : {false, true})
      for (const std::string layout : {"nn", "nt", "tn"})
        for (const auto& [m, n] : {std::pair{1, 8}, {5, 2000}, {300, 2000}, {2000, 2000}})
          for (const int64_t leaf : {16, 256, 1024})
            for (const int64_t k : {2048, 4096, 40960}) {
              Problem p = dtype == DType::BFloat16 || (tf32 && dtype == DType::Float32)
                              ? tensor_problem(layout, m, n, k, dtype)
                              : problem_of(layout, m, n, k, dtype);
              p.leaf = leaf;
              if (!supports(Algo::FewRows, p, d)) {
                ++refused;
                continue;
              }
              int count = 0;
              rung_of(Algo::FewRows)->ways(p, d, [&](const Way& way) {
                const FewRowsPlan plan = way.as<FewRowsPlan>();
                const FewRowsTileInfo& tile = few_rows_tile(plan.tile);
                if (!plan.split_k) {
                  EXPECT_LE(waiting_beyond(0, p).most, few_rows_waiting(tile.by, tile.columns));
                  EXPECT_LE(m, 64);
                }
                ++count;
              });
              EXPECT_GT(count, 0) << layout << ' ' << m << ' ' << n << ' ' << k << ' ' << leaf;
              ++taken;
            }
  EXPECT_GT(taken, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace tiled::test
