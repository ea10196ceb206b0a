// The plans of rung hopper: every one of them within the hardware's limits, what it copies, where
// its totals wait, and how it stores.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "planned.h"

namespace tiled::test {
namespace {

// Every plan that hopper could be given holds this.
void expect_sound(const Problem& p, const DeviceInfo& d, const HopperPlan& plan) {
  const HopperTileInfo& tile = hopper_tile(plan.tile);
  const int cluster = plan.cluster_p * plan.cluster_q;
  EXPECT_GE(cluster, 1);
  EXPECT_LE(cluster, 4);
  EXPECT_TRUE(plan.cluster_p == 1 || plan.cluster_q == 1);
  EXPECT_GT(plan.blocks, 0);
  EXPECT_EQ(plan.blocks % cluster, 0);
  EXPECT_LE(plan.blocks, d.multiprocessors * tile.blocks_per_sm);  // all of them at once
  EXPECT_GE(plan.panel, 1);
  EXPECT_LE(tile.shared_bytes, d.shared_bytes_per_block);
  EXPECT_LE((tile.shared_bytes + d.shared_bytes_reserved) * tile.blocks_per_sm,
            d.shared_bytes_per_sm);
  EXPECT_LE(tile.threads, d.threads_per_block);
  EXPECT_GE(occupancy(d, {tile.threads, 0, tile.shared_bytes}).blocks_per_sm, tile.blocks_per_sm);
  if (plan.split_k) {
    EXPECT_GT(segment_count(p.k), 1);
  }
  const Plan whole = plan_with(Algo::Hopper, p, d, plan);
  EXPECT_EQ(whole.algo, Algo::Hopper);
  EXPECT_EQ(whole.main_step().grid_x, plan.blocks);
  EXPECT_EQ(whole.main_step().threads_x, tile.threads);
  EXPECT_EQ(whole.main_step().shared_bytes, tile.shared_bytes);
  EXPECT_EQ(whole.block_m * whole.block_n, tile.block_p * tile.block_q);
  int64_t of_steps = 0;  // every byte is some kernel's
  for (const Step& step : whole) of_steps += step.workspace_bytes;
  EXPECT_EQ(whole.workspace_bytes, of_steps);
  EXPECT_GE(whole.tiles_m * whole.block_m, p.m);
  EXPECT_GE(whole.tiles_n * whole.block_n, p.n);
}

TEST(HopperPlans, AreWithinTheHardwaresLimits) {
  for (const char* name : {"h200", "h100", "h100-pcie", "h20", "gh200"})
    for (DType dtype : TENSOR_DTYPES)
      for (const std::string layout : {"nn", "nt", "tn", "tt"})
        for (const auto& [m, n, k] : {std::tuple{1, 1, 1},
                                      {1, 57344, 8192},
                                      {131072, 64, 64},
                                      {65, 33, 4097},
                                      {65, 33, 36865},
                                      {4096, 4096, 4096}}) {
          const DeviceInfo d = device(name);
          const Problem p = tensor_problem(layout, m, n, k, dtype);
          const std::vector<HopperPlan> plans = hopper_plans(p, d);
          EXPECT_GE(plans.size(), size_t{HOPPER_TILE_COUNT});
          for (const HopperPlan& plan : plans) expect_sound(p, d, plan);
        }
}

// The operand that needs it is copied, the other one is not, whichever of them is called P.
TEST(HopperPlans, OnlyWhatTmaCannotReadIsRepacked) {
  const DeviceInfo d = device("h200");
  const auto expect_repacks = [&](const Problem& p, bool a, bool b) {
    for (const HopperPlan& plan : hopper_plans(p, d)) {
      EXPECT_EQ(plan.swap_ab ? copies_q(plan) : copies_p(plan), a);
      EXPECT_EQ(plan.swap_ab ? copies_p(plan) : copies_q(plan), b);
    }
  };
  for (const char* layout : {"nn", "nt", "tn", "tt"}) {
    expect_repacks(changed(layout, [](Problem&) {}), false, false);
    expect_repacks(changed(layout, [](Problem& p) { p.a.alignment = 2; }), true, false);
    expect_repacks(changed(layout, [](Problem& p) { p.b.alignment = 8; }), false, true);
    expect_repacks(changed(layout, [](Problem& p) { p.b.row_stride = p.b.col_stride = 0; }), false,
                   true);
  }
}

// tf32 along m or n, which wgmma takes as P from registers, where a tile has those.
TEST(HopperPlans, Tf32ThatDoesNotLieAlongKIsReadByRegistersOrRepacked) {
  const DeviceInfo d = device("h200");
  for (const std::string layout : {"nn", "nt", "tn", "tt"})
    for (const HopperPlan& plan :
         hopper_plans(tensor_problem(layout, 64, 128, 256, DType::Float32), d)) {
      const bool a_mn = layout[0] == 't', b_mn = layout[1] == 'n';
      const HopperTileInfo& tile = hopper_tile(plan.tile);
      const bool by_registers = reads_by_registers(tile.group_p, tile.block_q, tile.consumers);
      EXPECT_EQ(copies_p(plan), (plan.swap_ab ? b_mn : a_mn) && !by_registers);
      EXPECT_EQ(copies_q(plan), plan.swap_ab ? a_mn : b_mn);
    }
}

// Rows of 131 elements are 136 apart, in the direction that they had; what has none, and
// tf32, along K.
TEST(HopperPlans, BytesOfRepackedOperands) {
  const DeviceInfo d = device("h200");
  const auto workspace = [&](const Problem& p) {
    const std::vector<Plan> plans = plans_of(Algo::Hopper, p, d);
    for (const Plan& plan : plans) EXPECT_EQ(plan.workspace_bytes, plans[0].workspace_bytes);
    return plans.at(0).workspace_bytes;
  };
  const auto rounded = [](int64_t bytes) { return workspace_aligned(bytes); };
  EXPECT_EQ(workspace(tensor_problem("nn", 40, 64, 131)), rounded(40 * 192 * 2));
  EXPECT_EQ(workspace(tensor_problem("tn", 131, 64, 40)), rounded(40 * 192 * 2));
  EXPECT_EQ(workspace(tensor_problem("nt", 64, 40, 131)),
            rounded(64 * 192 * 2) + rounded(40 * 192 * 2));
  EXPECT_EQ(workspace(tensor_problem("nn", 64, 131, 40)), rounded(40 * 192 * 2));
  EXPECT_EQ(workspace(tensor_problem("nn", 40, 131, 61)),
            rounded(40 * 64 * 2) + rounded(61 * 192 * 2));
  // A is contiguous along m: as Q it is copied, as P only for tiles that do not take it from
  // registers.
  const Problem tf32 = tensor_problem("tt", 64, 128, 61, DType::Float32);
  for (const HopperPlan& plan : hopper_plans(tf32, d)) {
    const HopperTileInfo& tile = hopper_tile(plan.tile);
    const bool copies_a =
        plan.swap_ab || !reads_by_registers(tile.group_p, tile.block_q, tile.consumers);
    EXPECT_EQ(plan_with(Algo::Hopper, tf32, d, plan).workspace_bytes,
              (copies_a ? rounded(64 * 64 * 4) : 0) + rounded(128 * 64 * 4));
  }
  Problem strided = tensor_problem("nn", 40, 64, 131);
  strided.a.row_stride = 1000, strided.a.col_stride = 3;
  EXPECT_EQ(workspace(strided), rounded(40 * 192 * 2));
  // One matrix for a whole batch is copied once, others each.
  Problem batch = tensor_problem("nn", 40, 64, 131);
  batch.batch = 5;
  EXPECT_EQ(workspace(batch), rounded(5 * 40 * 192 * 2));
  batch.a.batch_stride = 0;
  EXPECT_EQ(workspace(batch), rounded(40 * 192 * 2));
}

// A K that is cut has totals of the tiles that blocks hold, or every segment's sums.
TEST(HopperPlans, BytesOfSegments) {
  const DeviceInfo d = device("h200");
  const Problem one = tensor_problem("nn", 256, 256, 32760),
                eight = tensor_problem("nn", 256, 256, 32768);
  for (const HopperPlan& plan : hopper_plans(one, d)) {
    EXPECT_FALSE(plan.split_k);
    EXPECT_EQ(plan_with(Algo::Hopper, one, d, plan).workspace_bytes, 0);
  }
  int shared = 0;
  for (const HopperPlan& plan : hopper_plans(eight, d)) {
    const HopperTileInfo& tile = hopper_tile(plan.tile);
    const int64_t tiles = tile.ping_pong ? tile.consumers : 1;  // of one block, at a time
    const int64_t totals =
        tile.totals_fit ? 0 : tiles * plan.blocks * tile.block_p * tile.block_q * 4;
    EXPECT_EQ(plan_with(Algo::Hopper, eight, d, plan).workspace_bytes,
              plan.split_k ? 8 * 256 * 256 * 4 : totals);
    shared += plan.split_k;
  }
  EXPECT_GT(shared, 0);
}

// Tf32 has registers of its own for an operand, and so its totals always wait in the workspace.
TEST(HopperPlans, TotalsThatFitRegistersWaitThere) {
  EXPECT_TRUE(Coop128x176::TOTALS_FIT && Coop192x96::TOTALS_FIT && Deep64x128::TOTALS_FIT);
  EXPECT_FALSE(Coop128x256::TOTALS_FIT || Coop192x128::TOTALS_FIT || Ping128x128::TOTALS_FIT);
  const DeviceInfo d = device("h200");
  for (const DType dtype : {DType::Float32, DType::BFloat16}) {
    const Problem p = tensor_problem("nn", 256, 256, 32768, dtype);
    for (const HopperPlan& plan : hopper_plans(p, d))
      if (!plan.split_k && hopper_tile(plan.tile).totals_fit) {
        EXPECT_EQ(plan_with(Algo::Hopper, p, d, plan).workspace_bytes > 0, dtype == DType::Float32);
      }
  }
}

// All tiles of a shared segment are in the same round, where that costs no round.
TEST(HopperPlans, KeepTheTilesOfASegmentTogether) {
  const DeviceInfo d = device("h200");
  int together = 0, apart = 0;
  for (const auto& [m, n, k, batch] : {std::tuple{512, 512, 131072, 1},
                                       {768, 640, 32768, 1},
                                       {128, 1024, 100000, 1},
                                       {64, 64, 65536, 1},
                                       {512, 512, 32768, 3}}) {
    Problem p = tensor_problem("nn", m, n, k);
    p.batch = batch;
    for (const HopperPlan& plan : hopper_plans(p, d)) {
      if (!plan.split_k) continue;
      const Units units = units_of(p, plan);
      const int cluster = plan.cluster_p * plan.cluster_q;
      const int64_t tiles = units.clusters_p * units.clusters_q;  // of a segment
      const int64_t clusters = plan.blocks / cluster;
      const int64_t places = clusters_at_once(d, cluster) * hopper_tile(plan.tile).blocks_per_sm;
      EXPECT_EQ(blocks_over(units.count, clusters), blocks_over(units.count, places));
      const int64_t whole = places / tiles * tiles;
      const bool costs =
          whole == 0 || blocks_over(units.count, whole) != blocks_over(units.count, places);
      if (units.count <= clusters) continue;  // one round
      (clusters % tiles == 0 ? together : apart) += 1;
      EXPECT_TRUE(clusters % tiles == 0 || costs);
    }
  }
  EXPECT_GT(together, 20);
  EXPECT_GT(apart, 0);
}

TEST(HopperPlans, HowTheResultIsStored) {
  const DeviceInfo d = device("h200");
  const auto by_tma = [&](const Problem& p) {
    const bool stores = hopper_plans(p, d).at(0).stores_by_tma;
    for (const HopperPlan& plan : hopper_plans(p, d)) EXPECT_EQ(plan.stores_by_tma, stores);
    return stores;
  };
  const auto with_c = [](int64_t row_stride, int64_t col_stride, int32_t alignment) {
    Problem p = tensor_problem("nn", 64, 128, 256);
    p.c.row_stride = row_stride, p.c.col_stride = col_stride, p.c.alignment = alignment;
    return p;
  };
  EXPECT_TRUE(by_tma(with_c(128, 1, 16)));
  EXPECT_TRUE(by_tma(with_c(1, 64, 16)));  // its transpose is in rows
  EXPECT_FALSE(by_tma(with_c(136, 1, 8)));
  EXPECT_FALSE(by_tma(with_c(131, 1, 2)));
  EXPECT_FALSE(by_tma(with_c(1, 65, 2)));
  EXPECT_FALSE(by_tma(with_c(512, 3, 2)));
  Problem short_rows = with_c(136, 1, 16);  // TMA would write to the end of their last 16 bytes
  short_rows.n = 125;
  EXPECT_FALSE(by_tma(short_rows));
  Problem fp32 = with_c(128, 1, 16);
  fp32.epilogue.out_dtype = DType::Float32;
  EXPECT_TRUE(by_tma(fp32));
  EXPECT_TRUE(by_tma(tensor_problem("nn", 64, 128, 256, DType::Float32)));
}

}  // namespace
}  // namespace tiled::test
