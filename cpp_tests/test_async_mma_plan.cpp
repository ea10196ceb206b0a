// The plans of rung async_mma: on the devices of every compute capability from 8.0 on, its tiles
// beside their limits, and how it reads.
#include <gtest/gtest.h>

#include <set>

#include "cuda/engine/async_mma/plan.h"
#include "planned.h"

namespace tiled {
namespace {

using namespace test;

constexpr const char* DEVICES[] = {"a100",    "a10",  "l40s", "rtx3090", "rtx4090",
                                   "rtx5090", "b200", "h200", "h100",    "h20"};
constexpr DType HALVES[] = {DType::Float16, DType::BFloat16};

std::vector<AsyncMmaWay> ways_of(const Problem& p, const DeviceInfo& d) {
  std::vector<AsyncMmaWay> found;
  rung_of(Algo::AsyncMma)->ways(p, d, [&](const Way& way) {
    found.push_back(way.as<AsyncMmaWay>());
  });
  return found;
}

// From 8.0 on tensor cores compute sixteen bits, in one kernel where an operand needs no copy.
TEST(AsyncMmaPlan, RunsSixteenBitsFrom80On) {
  for (const char* name : DEVICES)
    for (DType dtype : HALVES)
      for (int64_t size : {1, 64, 1000, 4096}) {
        const Problem p = tensor_problem("nn", size, size, size, dtype);
        EXPECT_TRUE(on_tensor_cores(make_plan(p, device(name)).algo)) << name << ' ' << size;
        int bare = 0;
        for (const Plan& plan : plans_of(Algo::AsyncMma, p, device(name)))
          bare += plan.step_count == 1 && plan.workspace_bytes == 0;
        EXPECT_GT(bare, 0) << name << ' ' << size;
      }
}

// Every way fits the device, as the occupancy calculator has it, with the tile's blocks on a
// multiprocessor of 9.0 and one at least on every other.
TEST(AsyncMmaPlan, EveryWayFitsItsDevice) {
  for (const char* name : DEVICES) {
    const DeviceInfo d = device(name);
    std::set<int> tiles;
    for (const AsyncMmaWay& way : ways_of(tensor_problem("nn", 4096, 4096, 4096), d)) {
      const AsyncMmaTileInfo& tile = async_mma_tile(way.tile);
      EXPECT_LE(tile.shared_bytes, d.shared_bytes_per_block) << name;
      const int blocks = occupancy(d, {tile.threads, 0, tile.shared_bytes}).blocks_per_sm;
      EXPECT_GE(blocks, d.capability == 90 ? tile.blocks_per_sm : 1) << name;
      EXPECT_LE(tile.threads, d.threads_per_block);
      tiles.insert(way.tile);
    }
    // The largest needs more than 99 KiB, which 8.6, 8.9 and 12.0 do not have.
    const bool has_all = d.shared_bytes_per_block > SHARED_OF_8_6;
    EXPECT_EQ(static_cast<int>(tiles.size()), FIRST_HELD_TILE - !has_all) << name;
  }
}

TEST(AsyncMmaPlan, ReadsByWhatTheAlignmentAllows) {
  // Every way that copies nothing.
  const auto expect = [](const Problem& p, ReadBy a, ReadBy b) {
    int found = 0;
    for (const AsyncMmaWay& way : ways_of(p, device("a100"))) {
      if (way.copy_a || way.copy_b) continue;
      EXPECT_EQ(way.swap_ab ? way.b : way.a, a);
      EXPECT_EQ(way.swap_ab ? way.a : way.b, b);
      EXPECT_TRUE(async_mma_tile(way.tile).any || (a == ReadBy::Sixteen && b == ReadBy::Sixteen));
      ++found;
    }
    EXPECT_GT(found, 0);
  };
  Problem p = tensor_problem("nn", 512, 512, 512);
  expect(p, ReadBy::Sixteen, ReadBy::Sixteen);
  for (const auto& [alignment, by] :
       {std::pair{8, ReadBy::Eight}, {4, ReadBy::Four}, {2, ReadBy::Shifted}}) {
    p.a.alignment = alignment;
    expect(p, by, ReadBy::Sixteen);
  }
  p.a.row_stride = 2048, p.a.col_stride = 2, p.a.alignment = 4;
  expect(p, ReadBy::Elements, ReadBy::Sixteen);
  Problem bytes = tensor_problem("nt", 512, 512, 512, DType::Int8);
  bytes.arithmetic = Arithmetic::Fma;
  bytes.a.alignment = bytes.b.alignment = 1;
  expect(bytes, ReadBy::Elements, ReadBy::Elements);
}

// Each operand that is not read by 16 bytes may be copied to where it is, in another address of the
// workspace than the totals, which follow.
TEST(AsyncMmaPlan, Copies) {
  Problem p = tensor_problem("nn", 300, 200, DEEP_K);
  p.a.alignment = p.b.alignment = 2;
  std::set<std::pair<bool, bool>> found;
  rung_of(Algo::AsyncMma)->ways(p, device("a100"), [&](const Way& way) {
    const AsyncMmaWay w = way.as<AsyncMmaWay>();
    found.emplace(w.copy_a, w.copy_b);
    EXPECT_EQ(w.a == ReadBy::Sixteen, w.copy_a);
    EXPECT_EQ(w.b == ReadBy::Sixteen, w.copy_b);
    EXPECT_TRUE(async_mma_tile(w.tile).any || (w.copy_a && w.copy_b));
    const Plan plan = rung_of(Algo::AsyncMma)->plan(p, device("a100"), way);
    EXPECT_EQ((plan.copy_p != CopyTo::Nothing) + (plan.copy_q != CopyTo::Nothing),
              w.copy_a + w.copy_b);
    const Problem read = problem_as_read(p, plan);
    const Side copies[] = {side_a(read), side_b(read)};
    int64_t copied = 0;
    for (int i = 0; i < 2; ++i)
      if (w.swap_ab ? (i == 0 ? w.copy_b : w.copy_a) : (i == 0 ? w.copy_a : w.copy_b))
        copied += workspace_aligned(copy_bytes(copies[i], p));
    EXPECT_EQ(plan.at(Area::Totals), copied);
    EXPECT_EQ(plan.workspace_bytes - copied, plan.main_step().workspace_bytes);
  });
  EXPECT_EQ(found.size(), 4u);
}

// A product that is contiguous along m and along k runs with swap_ab alone; all others either way.
TEST(AsyncMmaPlan, LayoutsAndSides) {
  for (const std::string layout : {"nn", "nt", "tn", "tt"}) {
    std::set<bool> sides;
    const Problem p = tensor_problem(layout, 512, 256, 1024);
    for (const AsyncMmaWay& way : ways_of(p, device("h200"))) {
      sides.insert(way.swap_ab);
      const Plan plan = plan_with(Algo::AsyncMma, p, device("h200"), way);
      const Problem computed = async_mma_problem(problem_as_read(p, plan), way);
      EXPECT_FALSE(is_mn_major(side_a(computed)) && !is_mn_major(side_b(computed))) << layout;
      EXPECT_EQ(computed.m, way.swap_ab ? p.n : p.m);
      EXPECT_EQ(computed.c.row_stride, way.swap_ab ? p.c.col_stride : p.c.row_stride);
    }
    EXPECT_EQ(sides.size(), layout == "nt" || layout == "tn" ? 2u : 1u) << layout;
  }
}

// 7.5 has tiles of its own, of fp16 alone, which hold what they read in registers.
TEST(AsyncMmaPlan, OfCapability75) {
  const DeviceInfo t4 = device("t4");
  for (const std::string layout : {"nn", "nt", "tn", "tt"}) {
    std::set<int> tiles;
    for (int alignment : {16, 8, 4, 2}) {
      Problem p = tensor_problem(layout, 500, 300, 700, DType::Float16);
      p.a.alignment = p.b.alignment = alignment;
      EXPECT_TRUE(on_tensor_cores(make_plan(p, t4).algo));
      for (const AsyncMmaWay& way : ways_of(p, t4)) {
        const AsyncMmaTileInfo& tile = async_mma_tile(way.tile);
        EXPECT_TRUE(tile.of_7_5);
        const ReadBy by = alignment == 16 ? ReadBy::Sixteen : ReadBy::Shifted;
        EXPECT_TRUE(way.a == by && way.b == by);
        EXPECT_FALSE(way.copy_a || way.copy_b);
        EXPECT_GE(occupancy(t4, {tile.threads, 0, tile.shared_bytes}).blocks_per_sm,
                  tile.blocks_per_sm);
        tiles.insert(way.tile);
      }
    }
    EXPECT_EQ(tiles, (std::set<int>{FIRST_HELD_TILE, FIRST_HELD_TILE + 1}));
  }
  EXPECT_FALSE(supports(Algo::AsyncMma, tensor_problem("nn", 64, 64, 64), t4));
  EXPECT_FALSE(supports(Algo::AsyncMma, tensor_problem("nn", 64, 64, 64, DType::Float32), t4));
  Problem bytes = tensor_problem("nn", 64, 64, 64, DType::Int8);
  bytes.arithmetic = Arithmetic::Fma;
  EXPECT_FALSE(supports(Algo::AsyncMma, bytes, t4));
}

// Totals of a deep K are in the workspace, a tile's for each block, unless there is split-K.
TEST(AsyncMmaPlan, TotalsOfADeepK) {
  for (const int64_t k : {DEEP_K - 1, DEEP_K}) {
    const Problem p = tensor_problem("nt", 8000, 6000, k);
    for (const Plan& plan : plans_of(Algo::AsyncMma, p, device("a100"))) {
      if (is_split_k(plan)) continue;
      const int64_t tiles = plan.main_step().grid_x;
      EXPECT_EQ(plan.main_step().workspace_bytes,
                k < DEEP_K ? 0 : tiles * plan.block_m * plan.block_n * 4);
    }
  }
}

}  // namespace
}  // namespace tiled
