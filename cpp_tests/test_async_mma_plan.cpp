// The plans of rung async_mma: on the devices of every compute capability from 8.0 on, its tiles
// beside their limits, and how it reads.
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "cuda/rungs/10_async_mma/plan.h"
#include "planned.h"

namespace tiled {
namespace {

using namespace test;

constexpr const char* DEVICES[] = {"a100",    "a10",  "l40s", "rtx3090", "rtx4090",
                                   "rtx5090", "b200", "h200", "h100",    "h20"};
constexpr DType HALVES[] = {DType::Float16, DType::BFloat16};

std::vector<AsyncMmaWay> ways_of(const Problem& p, const DeviceInfo& d) {
  std::vector<AsyncMmaWay> found;
  rung_of(Algo::AsyncMma)->ways(p, d, [&](const Way& way, double) {
    found.push_back(way.as<AsyncMmaWay>());
  });
  return found;
}

// The best that copies nothing.
AsyncMmaWay way_of(const Problem& p, const char* name) {
  AsyncMmaWay best{};
  double least = std::numeric_limits<double>::infinity();
  rung_of(Algo::AsyncMma)->ways(p, device(name), [&](const Way& way, double cycles) {
    const AsyncMmaWay found = way.as<AsyncMmaWay>();
    if (found.copy_a || found.copy_b || cycles >= least) return;
    least = cycles, best = found;
  });
  return best;
}

TEST(AsyncMmaPlan, IsTakenForSixteenBitsFrom80On) {
  for (const char* name : {"a100", "a10", "l40s", "rtx3090", "rtx4090", "rtx5090", "b200"})
    for (DType dtype : HALVES)
      for (int64_t size : {1, 64, 1000, 4096}) {
        const Problem p = tensor_problem("nn", size, size, size, dtype);
        const Plan plan = make_plan(p, device(name));
        EXPECT_EQ(plan.algo, Algo::AsyncMma) << name << ' ' << size;
        EXPECT_EQ(plan.step_count, 1);
        EXPECT_EQ(plan.workspace_bytes, 0);
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
  Problem p = tensor_problem("nn", 512, 512, 512);
  EXPECT_EQ(way_of(p, "a100").a, ReadBy::Sixteen);
  EXPECT_FALSE(async_mma_tile(way_of(p, "a100").tile).any);
  for (const auto& [alignment, by] :
       {std::pair{8, ReadBy::Eight}, {4, ReadBy::Four}, {2, ReadBy::Shifted}}) {
    p.a.alignment = alignment;
    const AsyncMmaWay way = way_of(p, "a100");
    EXPECT_EQ(way.exchanged ? way.b : way.a, by);
    EXPECT_EQ(way.exchanged ? way.a : way.b, ReadBy::Sixteen);
    EXPECT_TRUE(async_mma_tile(way.tile).any);
  }
  p.a.row_stride = 2048, p.a.col_stride = 2, p.a.alignment = 4;
  const AsyncMmaWay way = way_of(p, "a100");
  EXPECT_EQ(way.exchanged ? way.b : way.a, ReadBy::Elements);
  Problem bytes = tensor_problem("nt", 512, 512, 512, DType::Int8);
  bytes.arithmetic = Arithmetic::Fma;
  bytes.a.alignment = bytes.b.alignment = 1;
  EXPECT_EQ(way_of(bytes, "a100").a, ReadBy::Elements);
  EXPECT_EQ(way_of(bytes, "a100").b, ReadBy::Elements);
}

// Each operand that is not read by 16 bytes may be copied to where it is, in another address of the
// workspace than the totals, which follow.
TEST(AsyncMmaPlan, Copies) {
  Problem p = tensor_problem("nn", 300, 200, DEEP_K);
  p.a.alignment = p.b.alignment = 2;
  std::set<std::pair<bool, bool>> found;
  rung_of(Algo::AsyncMma)->ways(p, device("a100"), [&](const Way& way, double) {
    const AsyncMmaWay w = way.as<AsyncMmaWay>();
    found.emplace(w.copy_a, w.copy_b);
    EXPECT_EQ(w.a == ReadBy::Sixteen, w.copy_a);
    EXPECT_EQ(w.b == ReadBy::Sixteen, w.copy_b);
    EXPECT_TRUE(async_mma_tile(w.tile).any || (w.copy_a && w.copy_b));
    const Plan plan = rung_of(Algo::AsyncMma)->plan(p, device("a100"), way);
    const AsyncMmaLayout l = async_mma_layout(p, w, nullptr);
    EXPECT_EQ(l.copies.count(), w.copy_a + w.copy_b);
    EXPECT_EQ(plan.workspace_bytes - l.copies.bytes(), plan.main_step().workspace_bytes);
  });
  EXPECT_EQ(found.size(), 4u);
}

// What lies along m and along k runs exchanged alone; all others either way.
TEST(AsyncMmaPlan, LayoutsAndSides) {
  for (const std::string layout : {"nn", "nt", "tn", "tt"}) {
    std::set<bool> sides;
    const Problem p = tensor_problem(layout, 512, 256, 1024);
    for (const AsyncMmaWay& way : ways_of(p, device("h200"))) {
      sides.insert(way.exchanged);
      const Problem computed = async_mma_layout(p, way, nullptr).computed;
      EXPECT_FALSE(is_mn_major(side_a(computed)) && !is_mn_major(side_b(computed))) << layout;
      EXPECT_EQ(computed.m, way.exchanged ? p.n : p.m);
      EXPECT_EQ(computed.c.row_stride, way.exchanged ? p.c.col_stride : p.c.row_stride);
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
      EXPECT_EQ(make_plan(p, t4).algo, Algo::AsyncMma);
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
  // A large tile where there is work for all.
  const auto most = [&](int64_t size) {
    return make_plan(tensor_problem("nt", size, size, size, DType::Float16), t4).block_m;
  };
  EXPECT_EQ(most(4096), 128);
  EXPECT_EQ(most(512), 64);
}

// Totals of a deep K wait in the workspace, a tile's for each block, where tiles are enough to fill
// the GPU. (An odd K may be copied first.)
TEST(AsyncMmaPlan, TotalsOfADeepK) {
  for (const int64_t k : {DEEP_K - 1, DEEP_K}) {
    const Problem p = tensor_problem("nt", 8000, 6000, k);
    const Plan plan = make_plan(p, device("a100"), Algo::AsyncMma);
    const int64_t tiles = plan.main_step().grid_x;
    EXPECT_EQ(plan.main_step().workspace_bytes,
              k < DEEP_K ? 0 : tiles * plan.block_m * plan.block_n * 4);
  }
}

}  // namespace
}  // namespace tiled
