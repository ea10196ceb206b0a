// The plans of fp16x3, and where their workspace is.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cuda/engine/fp16x3/splits.h"
#include "cuda/plan/fp16x3.h"
#include "planned.h"

namespace tiled::test {
namespace {

using Algos = std::vector<Algo>;

Algos rungs_of(const Problem& p, const char* name = "h200") {
  return supported_algos(p, device(name));
}

TEST(Fp16x3Plan, TheArithmeticAndTheDeviceDecide) {
  const Problem p = parts_problem("nn", 300, 200, 100);
  for (const char* name : {"h200", "h100", "a100", "a10", "l40s", "rtx5090", "b200"})
    EXPECT_EQ(rungs_of(p, name), Algos{Algo::Fp16x3}) << name;
  for (const char* name : {"t4", "k40", "fermi", "g80"})
    EXPECT_TRUE(rungs_of(p, name).empty()) << name;
  for (const Arithmetic other : {Arithmetic::Fma, Arithmetic::Tf32}) {
    Problem changed = p;
    changed.arithmetic = other;
    EXPECT_FALSE(supports(Algo::Fp16x3, changed, device("h200")));
  }
}

TEST(Fp16x3Plan, EveryLayout) {
  Problem p = parts_problem("nn", 300, 200, 100);
  p.a.row_stride = p.a.col_stride = 0;
  p.b.alignment = 4;
  p.b.row_stride = p.b.col_stride = 1;
  EXPECT_EQ(rungs_of(p), Algos{Algo::Fp16x3});
}

// Every plan that it could be given says this.
TEST(Fp16x3Plan, AreWithinTheHardwaresLimits) {
  const DeviceInfo d = device("h200");
  for (const auto& [m, n, k, batch] : {std::tuple{1, 1, 64, 1},
                                       {129, 65, 100, 1},
                                       {4096, 4096, 4096, 1},
                                       {1, 50000, 4096, 1},
                                       {70, 90, 36872, 5},
                                       {3000, 2000, 40000, 1}}) {
    Problem p = parts_problem("nn", m, n, k);
    p.batch = batch;
    const std::vector<Fp16x3Plan> ways = fp16x3_plans(p, d);
    EXPECT_GT(ways.size(), 1u);
    for (const Fp16x3Plan& way : ways) {
      const Fp16x3TileInfo tile = tile_of(way);
      const int cluster = way.cluster_p * way.cluster_q;
      EXPECT_TRUE(cluster == 1 || cluster == 2);
      EXPECT_GT(way.blocks, 0);
      EXPECT_EQ(way.blocks % cluster, 0);
      if (way.kernel != Fp16x3Kernel::Async) {  // else all of them are there at once
        EXPECT_LE(way.blocks, d.multiprocessors * tile.blocks_per_sm);
      }
      EXPECT_GE(way.panel, 1);
      EXPECT_LE(tile.shared_bytes, d.shared_bytes_per_block);
      EXPECT_LE((tile.shared_bytes + d.shared_bytes_reserved) * tile.blocks_per_sm,
                d.shared_bytes_per_sm);
      const Plan plan = plan_with(Algo::Fp16x3, p, d, way);
      EXPECT_EQ(plan.algo, Algo::Fp16x3);
      EXPECT_EQ(plan.main_step().grid_x * plan.main_step().grid_y, way.blocks);
      EXPECT_EQ(plan.main_step().threads_x, tile.threads);
      EXPECT_EQ(plan.main_step().shared_bytes, tile.shared_bytes);
      EXPECT_EQ(plan.end()[-1].work, Work::Guard);
      EXPECT_GT(plan.end()[-1].grid_x, 0);
      EXPECT_GE(plan.tiles_m * plan.block_m, p.m);
      EXPECT_GE(plan.tiles_n * plan.block_n, p.n);
    }
  }
}

// Where Hopper's kernels are missing: mma.sync, in tiles that fit the device, the largest where its
// shared memory has room. On Hopper there are the same beside the others.
TEST(Fp16x3Plan, WithoutHoppersKernels) {
  for (const char* name : {"a100", "a10", "l40s", "rtx3090", "rtx4090", "rtx5090", "b200"}) {
    const DeviceInfo d = device(name);
    for (const std::string layout : {"nn", "nt", "tn", "tt"})
      for (const auto& [m, n, k] :
           {std::tuple{4096, 4096, 4096}, {64, 64, 256}, {3, 5000, 40000}}) {
        const Problem p = parts_problem(layout, m, n, k);
        std::vector<std::string> tiles;
        for (const Fp16x3Plan& way : fp16x3_plans(p, d)) {
          EXPECT_EQ(way.kernel, Fp16x3Kernel::Async);
          EXPECT_TRUE(way.coarse);
          tiles.emplace_back(tile_name_of(way));
          const Plan plan = plan_with(Algo::Fp16x3, p, d, way);
          const Step& step = plan.main_step();
          EXPECT_EQ(step.cluster, 0);
          EXPECT_LE(step.shared_bytes, d.shared_bytes_per_block);
          EXPECT_LE(step.threads_x, d.threads_per_block);
        }
        EXPECT_EQ(std::count(tiles.begin(), tiles.end(), "X3Async128x128"),
                  d.shared_bytes_per_block >= 128 * KIB)
            << name;
        EXPECT_EQ(std::count(tiles.begin(), tiles.end(), "X3Async128x64"), 1) << name;
      }
    const std::string_view cards = "rtx";
    EXPECT_EQ(fp16x3_pays(d), std::string_view(name).substr(0, 3) != cards) << name;
  }
  for (const int64_t size : {64, 512, 4096}) {
    const Plan plan = plan_of_tile(Algo::Fp16x3, "X3Async128x64",
                                   parts_problem("nn", size, size, size), device("h200"));
    EXPECT_EQ(fp16x3_of(plan).kernel, Fp16x3Kernel::Async);
    EXPECT_FALSE(fp16x3_of(plan).coarse);
  }
}

// The guard's count is behind its list's, and there is none where it computes every element.
TEST(Fp16x3Plan, WhereElementsThatAreComputedAgainAreCounted) {
  const DeviceInfo d = device("h200");
  const auto place = [&](int64_t k) {
    return place_of_recomputed(make_plan(parts_problem("nn", 100, 100, k), d, Algo::Fp16x3));
  };
  EXPECT_EQ(place(63), std::nullopt);
  const Plan plan = make_plan(parts_problem("nn", 100, 100, 64), d, Algo::Fp16x3);
  EXPECT_EQ(place(64), plan.at(Area::Guard) + 4);
}

// Tiles of planes may be by stream-K where there are more of them than blocks and K has one
// segment.
TEST(Fp16x3Plan, TilesThatAreCut) {
  const DeviceInfo d = device("h200");
  const auto cut = [&](const std::string& layout, int64_t m, int64_t n, int64_t k) {
    int found = 0;
    const Problem p = parts_problem(layout, m, n, k);
    for (const Fp16x3Plan& way : fp16x3_plans(p, d)) {
      if (!way.stream_k) continue;
      ++found;
      EXPECT_EQ(way.kernel, Fp16x3Kernel::Planes);
      const Plan plan = plan_with(Algo::Fp16x3, p, d, way);
      EXPECT_TRUE(plan.demand.stream_k);
      EXPECT_LE(plan.main_step().grid_x, d.multiprocessors * tile_of(way).blocks_per_sm);
      const std::string json = to_json(report(p, d, plan));
      EXPECT_NE(json.find(R"("stream_k": true)"), std::string::npos);
    }
    return found;
  };
  for (const std::string layout : {"nn", "nt", "tn", "tt"}) {
    for (const int64_t size : {1536, 1792, 2304, 2560, 3072})
      EXPECT_GT(cut(layout, size, size, size), 0) << layout << ' ' << size;
    EXPECT_EQ(cut(layout, 256, 256, 256), 0) << "a block for each";
    EXPECT_EQ(cut(layout, 1536, 1536, 32768), 0) << "K has segments";
  }
}

// Every part of the workspace begins on a cache line, after the end of the one before.
TEST(Fp16x3Plan, PartsOfTheWorkspaceAreApart) {
  const DeviceInfo d = device("h200");
  for (const std::string layout : {"nn", "nt", "tn", "tt"})
    for (const auto& [m, n, k, batch, shared] : {std::tuple{70, 90, 100, 1, false},
                                                 {70, 90, 36872, 3, false},
                                                 {1, 1, 64, 1, false},
                                                 {300, 1, 515, 7, true},
                                                 {1500, 1536, 515, 1, false},
                                                 {4096, 4095, 4097, 1, false}}) {
      Problem p = parts_problem(layout, m, n, k);
      p.batch = batch;
      if (shared) p.b.batch_stride = 0;
      for (const Fp16x3Plan& way : fp16x3_plans(p, d)) {
        const Plan plan = plan_with(Algo::Fp16x3, p, d, way);
        const int64_t p_entries = shared && way.swap_ab ? 1 : batch;
        const int64_t q_entries = shared && !way.swap_ab ? 1 : batch;
        const int64_t rows_p = way.swap_ab ? n : m, rows_q = way.swap_ab ? m : n;
        const int64_t squares = (m + 63) / 64 * ((n + 63) / 64) * batch;
        const bool has_totals = segment_count(k) > 1 || way.stream_k;
        const int64_t copied_p =
            way.kernel == Fp16x3Kernel::Direct ? 0 : p_entries * 2 * rows_p * k * 2;
        const std::pair<int64_t, int64_t> parts[] = {
            {plan.at(Area::P), copied_p},
            {plan.at(Area::Q), q_entries * 2 * rows_q * k * 2},
            {plan.at(Area::ScalesP), p_entries * rows_p * 8},
            {plan.at(Area::ScalesQ), q_entries * rows_q * 8},
            {plan.at(Area::Guard), (2 + squares) * 4},
            {plan.at(Area::Words), way.stream_k ? (1 + way.blocks) * 4 : 0},
            {plan.at(Area::Squares), squares * 4},
            {plan.at(Area::Marks), squares * 64 * 64 / 8},
            {plan.at(Area::Totals),
             has_totals ? int64_t{way.blocks} * tile_of(way).block_p * tile_of(way).block_q * 4
                        : 0}};
        int64_t end = 0;
        for (const auto& [begin, bytes] : parts) {
          EXPECT_GE(begin, end);
          EXPECT_EQ(begin % WORKSPACE_ALIGNMENT, 0);
          end = begin + bytes;
        }
        EXPECT_EQ(end, plan.workspace_bytes);
      }
    }
}

// An operand whose rows lie beside each other is measured first and split by a kernel of its own,
// after what is along k. A kernel that needs what the one before finds does not run beside it.
TEST(Fp16x3Plan, WhatIsMeasuredIsSplitLast) {
  const auto keys = [](const std::string& layout) {
    const Plan plan = plan_of_tile(Algo::Fp16x3, "X3Tile128x128",
                                   parts_problem(layout, 2048, 1536, 1024), device("h200"));
    std::vector<int> found;
    for (const Step& step : plan)
      if (step.work == Work::Split) found.push_back(step.key);
    return found;
  };
  using Keys = std::vector<int>;
  EXPECT_EQ(keys("nt"), (Keys{OF_Q | CLEARS, OF_P | BESIDE}));
  EXPECT_EQ(keys("nn"), (Keys{OF_P | CLEARS, MEASURES | OF_Q | BESIDE, OF_Q}));
  EXPECT_EQ(keys("tt"), (Keys{OF_Q | CLEARS, MEASURES | OF_P | BESIDE, OF_P}));
  EXPECT_EQ(keys("tn"), (Keys{MEASURES | OF_P | OF_Q | CLEARS, OF_Q, OF_P | BESIDE}));
}

// A few rows of A or columns of B may have a kernel of their own: the other operand is read as it
// lies, so that the workspace holds the few rows in parts, their scales, lists and marks.
TEST(Fp16x3Plan, FewRowsHaveAKernelOfTheirOwn) {
  const DeviceInfo d = device("h200");
  for (const std::string layout : {"nn", "nt", "tn", "tt"})
    for (const auto& [few, k] : {std::pair{1, 4096},
                                 {2, 4096},
                                 {7, 4096},
                                 {16, 14336},
                                 {17, 4096},
                                 {17, 14336},
                                 {32, 4096},
                                 {33, 4096}})
      for (const bool swap_ab : {false, true}) {
        const Problem p =
            swap_ab ? parts_problem(layout, few, 4096, k) : parts_problem(layout, 4096, few, k);
        int found = 0;
        for (const Plan& plan : plans_of(Algo::Fp16x3, p, d)) {
          const Fp16x3Plan way = fp16x3_of(plan);
          if (way.kernel != Fp16x3Kernel::FewRows) continue;
          ++found;
          EXPECT_EQ(way.swap_ab, swap_ab);
          EXPECT_LT(plan.workspace_bytes,
                    (few + 7) / 8 * 8 * k * 4 + 64 * (8 + 64 * 64 / 8) + 1024 + 256);
          const int64_t tiles = swap_ab ? plan.tiles_n : plan.tiles_m;
          EXPECT_GE(tiles * (swap_ab ? plan.block_n : plan.block_m), 4096);
          EXPECT_EQ(plan.main_step().grid_x, tiles * way.cluster_p);
        }
        EXPECT_EQ(found > 0, few <= 16 || (few <= 32 && k == 4096))
            << layout << ' ' << few << ' ' << k;
      }
}

// A block's slots and what is around them are within its shared memory, and as many blocks within
// a multiprocessor's as its registers allow.
TEST(Fp16x3Plan, FewRowsFitSharedMemory) {
  const DeviceInfo d = device("h200");
  for (int rows = 1; rows <= FEW_ROWS; ++rows)
    for (const int64_t k : {64, 100, 4096, 8192, 40000, 1 << 30})
      for (int t = 0; t < Fp16x3FewRowsTiles::COUNT; ++t)
        for (int cluster = 1; cluster <= FEW_ROWS_CLUSTER; ++cluster) {
          const Fp16x3TileInfo tile = Fp16x3FewRowsTiles::AS<Fp16x3TileInfo>[t];
          const FewRowsBlock block = few_rows_block(rows, k, tile, cluster);
          const int64_t chunks = (k + 63) / 64, own = (chunks + cluster - 1) / cluster;
          const int64_t share = (rows + cluster - 1) / cluster;
          EXPECT_GT(block.slots, 0);
          EXPECT_LE(block.slots, own);
          EXPECT_TRUE(block.slots == own || block.slots % (tile.threads / 32) == 0);
          const int64_t used =
              few_rows_head(cluster) + share * FEW_ROWS_BLOCK_P * 8 +
              int64_t{block.slots} * (cluster * share * FEW_ROWS_PITCH * 4 + 32 * 4);
          EXPECT_EQ(block.shared_bytes, used);
          EXPECT_LE((block.shared_bytes + d.shared_bytes_reserved) * tile.blocks_per_sm,
                    d.shared_bytes_per_sm);
          EXPECT_LE(block.shared_bytes, d.shared_bytes_per_block);
        }
}

// Blocks of a cluster may share out K, each with one chunk of it at least. Every way has a name.
TEST(Fp16x3Plan, FewRowsShareKInClusters) {
  const DeviceInfo d = device("h200");
  for (const auto& [few, many, k, largest] : {std::tuple{1, 2112, 3072, FEW_ROWS_CLUSTER},
                                              {1, 4096, 4096, FEW_ROWS_CLUSTER},
                                              {16, 2560, 9728, FEW_ROWS_CLUSTER},
                                              {16, 4288, 32064, FEW_ROWS_CLUSTER},
                                              {1, 4096, 130, 2}})
    for (const std::string layout : {"nn", "nt"}) {
      const Problem p = parts_problem(layout, few, many, k);
      std::vector<NamedWay> names;
      for (const Plan& plan : plans_of(Algo::Fp16x3, p, d)) {
        const Fp16x3Plan way = fp16x3_of(plan);
        if (way.kernel != Fp16x3Kernel::FewRows) continue;
        const int cluster = way.cluster_p;
        EXPECT_LE(cluster, largest) << k;
        EXPECT_EQ(plan.main_step().cluster, cluster > 1 ? cluster : 0);
        EXPECT_EQ(plan.main_step().grid_x % cluster, 0);
        const NamedWay name = rung_of(Algo::Fp16x3)->name(p, plan.way);
        EXPECT_EQ(std::find(names.begin(), names.end(), name), names.end());
        names.push_back(name);
      }
      EXPECT_EQ(names.size(), static_cast<size_t>(Fp16x3FewRowsTiles::COUNT * largest));
    }
}

// A narrow C can read its large operand in its own layout where TMA can; where it cannot, planes of
// it are written first.
TEST(Fp16x3Plan, ANarrowCNeedsNoPlanesOfTheLargeOperand) {
  const DeviceInfo d = device("h200");
  for (const std::string layout : {"nn", "nt", "tn", "tt"})
    for (const auto& [m, n] : {std::pair{64, 4096}, {4096, 128}, {64, 28672}, {2048, 128}}) {
      Problem p = parts_problem(layout, m, n, 4096);
      const auto direct = [&, swap_ab = m < n] {
        int found = 0;
        for (const Fp16x3Plan& way : fp16x3_plans(p, d)) {
          if (way.kernel != Fp16x3Kernel::Direct || way.swap_ab != swap_ab) continue;
          ++found;
          EXPECT_LT(plan_with(Algo::Fp16x3, p, d, way).workspace_bytes,
                    128 * 4096 * 4 + 40000 * 8 + 8192 + 28672 * 128 / 8 + 28672 * 2);
        }
        return found;
      };
      EXPECT_GT(direct(), 0) << layout << ' ' << m << ' ' << n;
      (m < n ? p.b : p.a).alignment = 4;
      EXPECT_EQ(direct(), 0) << layout << ' ' << m << ' ' << n;
    }
}

// An operand's planes have its layout, with a pitch of whole cache lines.
TEST(Fp16x3Plan, PlanesLieAsTheOperandDoes) {
  const Problem p = parts_problem("nn", 70, 90, 100);
  const Side a = split_planes(side_a(p)), b = split_planes(side_b(p));
  EXPECT_EQ(a.k_stride, 1);
  EXPECT_EQ(a.row_stride, 128);
  EXPECT_EQ(a.batch_stride, 70 * 128);
  EXPECT_EQ(b.row_stride, 1);
  EXPECT_EQ(b.k_stride, 128);
  EXPECT_EQ(b.batch_stride, 100 * 128);
  EXPECT_TRUE(is_mappable(a) && is_mappable(b));
  Problem strided = p;
  strided.a.row_stride = 2, strided.a.col_stride = 300;
  EXPECT_EQ(split_planes(side_a(strided)).k_stride, 1);
}

// Below 64 of K the guard computes everything, from the operands as they are.
TEST(Fp16x3Plan, AnEmptyCHasPlans) {
  for (const char* name : {"h200", "a100"})
    for (const auto& [m, n] : {std::pair{1550, 0}, {0, 1550}, {0, 0}})
      for (const int64_t k : {0, 64, 4096, 58122}) {
        const Problem p = parts_problem("nn", m, n, k);
        const std::vector<Plan> plans = plans_of(Algo::Fp16x3, p, device(name));
        EXPECT_FALSE(plans.empty());
        for (const Plan& plan : plans) EXPECT_EQ(plan.demand.units, 0);
      }
}

TEST(Fp16x3Plan, AShortKHasNoWorkspace) {
  const DeviceInfo d = device("h200");
  for (const int64_t k : {0, 1, 63}) {
    for (const Plan& plan : plans_of(Algo::Fp16x3, parts_problem("nn", 300, 200, k), d)) {
      EXPECT_EQ(plan.workspace_bytes, 0) << k;
      EXPECT_EQ(plan.step_count, 1) << k;
      EXPECT_GT(plan.end()[-1].grid_x, 0) << k;
    }
  }
  for (const Plan& plan : plans_of(Algo::Fp16x3, parts_problem("nn", 300, 200, 64), d))
    EXPECT_GT(plan.workspace_bytes, 0);
}

TEST(Fp16x3Plan, EmptyProblems) {
  const DeviceInfo d = device("h200");
  for (const auto& [m, n, k, batch] :
       {std::tuple{0, 5, 70, 1}, {5, 0, 70, 1}, {5, 7, 0, 1}, {5, 7, 70, 0}}) {
    Problem p = parts_problem("nn", m, n, k);
    p.batch = batch;
    const Plan plan = make_plan(p, d);
    EXPECT_TRUE(supports(plan.algo, p, d));
    EXPECT_GE(plan.workspace_bytes, 0);
  }
}

// Sizes whose bytes do not fit 64 bits are refused, as are those beyond the 31 bits of coordinates
// and counters; all else has at least the bytes of its planes.
TEST(Fp16x3Plan, HugeSizes) {
  const DeviceInfo d = device("h200");
  constexpr int64_t LARGE = int64_t{1} << 30, TOO_LARGE = int64_t{1} << 31;
  for (const auto& [m, n, k] : {std::tuple{TOO_LARGE, int64_t{8}, int64_t{80}},
                                {int64_t{8}, TOO_LARGE, int64_t{80}},
                                {int64_t{8}, int64_t{8}, TOO_LARGE}})
    EXPECT_TRUE(rungs_of(parts_problem("nn", m, n, k)).empty()) << m << ' ' << n << ' ' << k;
  Problem batch = parts_problem("nn", 8, 8, 80);
  batch.batch = TOO_LARGE;
  EXPECT_TRUE(rungs_of(batch).empty());
  EXPECT_TRUE(rungs_of(parts_problem("nn", LARGE, LARGE, 64)).empty());  // 2^48 squares

  for (const int64_t m : {int64_t{1}, int64_t{1} << 20, LARGE})
    for (const int64_t n : {int64_t{1}, int64_t{17}, int64_t{1} << 16})
      for (const int64_t k : {int64_t{64}, int64_t{1} << 20, LARGE, 2 * LARGE - 512})
        for (const int64_t entries : {int64_t{1}, int64_t{1} << 10, LARGE}) {
          Problem p = parts_problem("nn", m, n, k);
          p.batch = entries;
          if (!supports(Algo::Fp16x3, p, d)) continue;
          // The larger operand has no planes where it is read in its own layout.
          for (const Plan& plan : plans_of(Algo::Fp16x3, p, d)) {
            const Fp16x3Kernel kernel = fp16x3_of(plan).kernel;
            const bool both = kernel == Fp16x3Kernel::Planes || kernel == Fp16x3Kernel::Async;
            const double rows = static_cast<double>(both ? m + n : std::min(m, n));
            const double planes = 4. * static_cast<double>(entries) * static_cast<double>(k) * rows;
            const double bytes = static_cast<double>(plan.workspace_bytes);
            EXPECT_LT(planes, 0x1p63) << m << ' ' << n << ' ' << k << ' ' << entries;
            EXPECT_GE(bytes, planes * (1 - 0x1p-50)) << m << ' ' << n << ' ' << k << ' ' << entries;
          }
        }
  EXPECT_TRUE(supports(Algo::Fp16x3, parts_problem("nn", LARGE, 8, 64), d));
  EXPECT_TRUE(supports(Algo::Fp16x3, parts_problem("nt", 8, 8, LARGE), d));
}

TEST(Fp16x3Plan, HowMuchAnElementMayLose) {
  // The rest of min(K, 8 sqrt(K)) 2^-24.
  EXPECT_DOUBLE_EQ(fp16x3_tolerance(64, false), (64 - 53.2) * 0x1p-24);
  EXPECT_DOUBLE_EQ(fp16x3_tolerance(4096, false), (512 - 53.2 - 63) * 0x1p-24);
  EXPECT_DOUBLE_EQ(fp16x3_tolerance(1 << 16, false), (2048 - 53.2 - 63 - 16) * 0x1p-24);
  EXPECT_DOUBLE_EQ(fp16x3_tolerance(4096, true), (512 - 93.4 - 63) * 0x1p-24);
  for (const bool coarse : {false, true})
    for (int64_t k = fp16x3_least_k(coarse); k < int64_t{1} << 29; k += 1 + k / 7)
      EXPECT_GT(fp16x3_tolerance(k, coarse), 0) << k;
}

}  // namespace
}  // namespace tiled::test
