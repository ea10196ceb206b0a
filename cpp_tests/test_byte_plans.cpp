// The plans of rung hopper for bytes: along K, whatever that takes, without totals, stored by
// slices; with groups and with scales.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "cuda/plan/copies.h"
#include "planned.h"

namespace tiled::test {
namespace {

// C holds the sums as they are, or is of the operands' dtype.
Problem bytes(const std::string& layout, int64_t m, int64_t n, int64_t k, DType dtype = DType::Int8,
              DType out = DType::Int32) {
  Problem p = problem_of(layout, m, n, k, dtype);
  p.epilogue.out_dtype = out;
  p.c.alignment = alignment_of(nullptr, out, n, 1, m * n);
  return p;
}

Problem scaled(const std::string& layout, int64_t m, int64_t n, int64_t k) {
  Problem p = bytes(layout, m, n, k, DType::Int8, DType::BFloat16);
  p.scales = {{nullptr, 1, 0, 0, Scaling::Rowwise},
              {nullptr, 1, 0, 0, Scaling::Rowwise},
              DType::Int8,
              false};
  return p;
}

const DeviceInfo H100 = device("h100");

TEST(BytePlans, AreWithinTheHardwaresLimits) {
  for (const DType dtype : {DType::Int8, DType::UInt8})
    for (const DType out : {dtype, DType::Int32})
      for (const std::string layout : {"nn", "nt", "tn", "tt"})
        for (const auto& [m, n, k] : {std::tuple{1, 1, 1},
                                      {1, 57344, 8192},
                                      {131072, 64, 64},
                                      {65, 33, 36865},
                                      {4096, 4096, 4096}}) {
          const Problem p = bytes(layout, m, n, k, dtype, out);
          size_t ways = 0;
          for (const Plan& plan : plans_of(Algo::Hopper, p, H100)) {
            const HopperPlan way = hopper_of(plan);
            const HopperTileInfo& tile = hopper_tile(way.tile);
            ++ways;
            EXPECT_EQ(plan.block_k, 128);
            EXPECT_GT(way.blocks, 0);
            EXPECT_LE(way.blocks, H100.multiprocessors * tile.blocks_per_sm);
            EXPECT_EQ(plan.main_step().shared_bytes, tile.shared_bytes);
            // Only split-K's sums wait.
            EXPECT_EQ(plan.main_step().workspace_bytes > 0, way.split_k);
            const Sides read = sides_of(problem_as_read(p, plan), plan.swap_ab);
            EXPECT_FALSE(is_mn_major(read.p) || is_mn_major(read.q));
          }
          EXPECT_GE(ways, size_t{HOPPER_TILE_COUNT});
        }
}

TEST(BytePlans, CopyWhatDoesNotLieAlongK) {
  const auto copies = [&](const Problem& p) {
    const Plan plan = make_plan(p, H100, Algo::Hopper);
    return (plan.copy_p != CopyTo::Nothing) + (plan.copy_q != CopyTo::Nothing);
  };
  EXPECT_EQ(copies(bytes("nt", 256, 512, 1024)), 0);
  EXPECT_EQ(copies(bytes("nn", 256, 512, 1024)), 1);
  EXPECT_EQ(copies(bytes("tt", 256, 512, 1024)), 1);
  EXPECT_EQ(copies(bytes("tn", 256, 512, 1024)), 2);
  EXPECT_EQ(copies(bytes("nt", 256, 512, 1000)), 2);  // rows that are no 16 bytes apart
}

// An operand that is contiguous along m or n goes 16 bytes at a time, wherever its lines begin.
TEST(BytePlans, HowTheyAreCopied) {
  const auto grid = [](const Side& side, const Problem& p) {
    return copy_grid_of(side, copied(side, p.dtype, CopyTo::AlongK), p);
  };
  for (const DType dtype : {DType::Int8, DType::UInt8, DType::Float8E5M2}) {
    Problem p = bytes("nn", 300, 1000, 700, dtype);
    EXPECT_EQ(grid(side_a(p), p).by, CopyBy::Rows);
    const CopyGrid b = grid(side_b(p), p);
    EXPECT_EQ(b.by, CopyBy::Bytes);
    EXPECT_EQ(b.rows, 1000);
    EXPECT_EQ(b.columns, 700);
    EXPECT_EQ(b.blocks_x, 6);
    EXPECT_EQ(b.blocks_y, 8);
    p.b.alignment = 1;
    EXPECT_EQ(grid(side_b(p), p).by, CopyBy::Bytes);
    p.b.col_stride = 2;
    EXPECT_EQ(grid(side_b(p), p).by, CopyBy::Squares);
  }
  const Problem wide = tensor_problem("nn", 300, 1000, 700);
  EXPECT_EQ(grid(side_b(wide), wide).by, CopyBy::Squares);
}

TEST(BytePlans, HowTheResultIsStored) {
  const auto by_tma = [&](const Problem& p) {
    const bool stores = hopper_plans(p, H100).at(0).stores_by_tma;
    for (const HopperPlan& plan : hopper_plans(p, H100)) EXPECT_EQ(plan.stores_by_tma, stores);
    return stores;
  };
  const auto with = [](DType out, int64_t n, int64_t row_stride, int64_t col_stride,
                       int32_t alignment) {
    Problem p = bytes("nt", 64, n, 256, DType::Int8, out);
    p.c.row_stride = row_stride, p.c.col_stride = col_stride, p.c.alignment = alignment;
    return p;
  };
  EXPECT_TRUE(by_tma(with(DType::Int32, 128, 128, 1, 16)));
  EXPECT_TRUE(by_tma(with(DType::Int32, 132, 132, 1, 16)));
  EXPECT_FALSE(by_tma(with(DType::Int32, 130, 132, 1, 16)));
  EXPECT_FALSE(by_tma(with(DType::Int32, 131, 131, 1, 4)));
  EXPECT_TRUE(by_tma(with(DType::Int32, 128, 1, 64, 16)));
  EXPECT_FALSE(by_tma(with(DType::Int32, 128, 512, 3, 4)));
  EXPECT_TRUE(by_tma(with(DType::Int8, 128, 128, 1, 16)));
  EXPECT_FALSE(by_tma(with(DType::Int8, 136, 144, 1, 16)));
}

// Split-K for a small C, whose sums another kernel adds.
TEST(BytePlans, ShareOutSegments) {
  int shared = 0;
  for (const Plan& plan : plans_of(Algo::Hopper, bytes("nt", 256, 256, 32768), H100)) {
    EXPECT_EQ(plan.workspace_bytes, is_split_k(plan) ? 8 * 256 * 256 * 4 : 0);
    shared += is_split_k(plan);
  }
  EXPECT_GT(shared, 0);
}

TEST(BytePlans, AreOfHopperGpusAlone) {
  for (const char* name : {"h200", "h100", "a100", "b200", "t4"}) {
    const DeviceInfo d = device(name);
    EXPECT_EQ(supports(Algo::Hopper, bytes("nt", 64, 64, 64), d), d.capability == 90);
    EXPECT_EQ(supports(Algo::Hopper, scaled("nt", 64, 64, 64), d), d.capability == 90);
  }
  Problem more = bytes("nt", 64, 64, 64, DType::Int8, DType::Int8);
  more.epilogue.alpha.integer = 2;
  EXPECT_FALSE(supports(Algo::Hopper, more, H100));
}

TEST(BytePlans, OfGroups) {
  for (const bool has_scales : {false, true}) {
    Problem p = has_scales ? scaled("nt", 16384, 1536, 4096)
                           : bytes("nt", 16384, 1536, 4096, DType::Int8, DType::Int8);
    p.batch = 64;
    p.groups.shared = Shared::M;
    p.b.batch_stride = 1536 * 4096;
    EXPECT_EQ(make_plan(p, H100).algo, Algo::Hopper);
    for (const HopperPlan& way : hopper_plans(p, H100)) {
      const HopperTileInfo& tile = hopper_tile(way.tile);
      EXPECT_TRUE(has_scales ? tile.of_scaled_groups : tile.of_groups);
    }
    p.b.batch_stride = 0;
    share_out(p, {Shared::K, /*wide=*/false, nullptr});  // they begin anywhere
    EXPECT_TRUE(supports(Algo::Hopper, p, H100));
    for (const HopperPlan& way : hopper_plans(p, H100)) {
      EXPECT_EQ(way.copy_p, CopyTo::Spaced);
      EXPECT_EQ(way.copy_q, CopyTo::Spaced);
    }
  }
}

TEST(BytePlans, WithScales) {
  for (const auto& [m, n, k] : {std::tuple{4096, 4096, 4096}, {1, 1, 1}, {3, 5, 40000}}) {
    const Problem p = scaled("nt", m, n, k);
    EXPECT_EQ(make_plan(p, H100).algo, Algo::Hopper);
    for (const Plan& plan : plans_of(Algo::Hopper, p, H100)) {
      const HopperTileInfo& tile = hopper_tile(hopper_of(plan).tile);
      EXPECT_TRUE(tile.of_scaled);
      EXPECT_EQ(plan.main_step().workspace_bytes, 0);
      EXPECT_LE(plan.main_step().shared_bytes * tile.blocks_per_sm, 227 * 1024);
    }
  }
}

}  // namespace
}  // namespace tiled::test
