// Plans of products larger than a device: every tile once, within the memory, with the traffic that
// they say.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <set>
#include <thread>

#include "core/segments.h"
#include "scale/links.h"
#include "scale/memory.h"
#include "scale/plan.h"
#include "scale/tiles.h"

namespace tiled::scale {
namespace {

constexpr int64_t MIB = int64_t{1} << 20, GIB = int64_t{1} << 30;
constexpr Rates H200 = {55e9, 55e9, 650e12, 4.8e12};

Task task_of(int64_t m, int64_t n, int64_t k, int64_t bytes = 2) {
  return {m,           n,     k,
          true,        false, true,
          bytes,       bytes, std::max<int64_t>(bytes, 4),
          k >= DEEP_K, false, 2. * m * n * k};
}

Product at_full_rate(int64_t, int64_t, int64_t) { return {0, 0}; }

// The bytes that a plan keeps on the device, counted apart from the planner: matrices that begin at
// multiples of 512 bytes.
int64_t bytes_of_matrices(const Plan& p, const Task& t) {
  const auto bytes = [](int64_t lines, int64_t along, int64_t size) {
    return (lines * pitch_of(along, size) * size + 511) / 512 * 512;
  };
  // Elements of A are contiguous along k, those of B and C along n.
  return p.slots_a * bytes(p.block_m, p.block_k, t.element_bytes) +
         p.slots_b * bytes(p.block_k, p.block_n, t.element_bytes) +
         p.slots_c * bytes(p.block_m, p.block_n, t.result_bytes) +
         (p.keeps_parts + p.keeps_totals) * bytes(p.block_m, p.block_n, t.sum_bytes);
}

int64_t bytes_of_workspace(const Plan& p, const Task& t, const ProductOf& product) {
  return product(p.block_m, p.block_n, p.steps_k > 1 ? SEGMENT_K : t.k).workspace_bytes;
}

// The bytes that PyTorch's allocator counts for a request that it takes from a free block of this
// size, or from a new one, where `free` is 0. Blocks of up to a MiB are split where 512 bytes are
// left, others where more than a MiB is; new ones are of 2 MiB, 20 MiB or multiples of 2 MiB.
int64_t counted(int64_t request, int64_t free) {
  const int64_t size = (request + 511) / 512 * 512;
  const bool small = size <= MIB;
  if (free < size)
    free = small             ? 2 * MIB
           : size < 10 * MIB ? 20 * MIB
                             : (size + 2 * MIB - 1) / (2 * MIB) * 2 * MIB;
  return small || free - size > MIB ? size : free;
}

struct Random {
  std::mt19937_64 engine{23};
  int64_t between(int64_t least, int64_t most) {
    const double x = std::uniform_real_distribution<>(std::log(least), std::log(most + 1))(engine);
    return std::clamp(static_cast<int64_t>(std::exp(x)), least, most);
  }
};

TEST(Scale, EveryTileIsDoneOnceWithinTheMemory) {
  Random random;
  int planned = 0;
  for (int round = 0; round < 500; ++round) {
    Task task = task_of(random.between(1, 20000), random.between(1, 20000),
                        random.between(1, 200000), int64_t{1} << random.between(0, 4));
    const ProductOf product = [&](int64_t m, int64_t n, int64_t k) {
      return Product{round % 2 ? (m + n) * std::min<int64_t>(k, 1000) : 0, 0};
    };
    const int64_t memory = random.between(1 << 20, 8 * GIB);
    const auto plan = make_plan(task, H200, memory, product);
    if (!plan) {  // then the smallest tile of whole K has no room
      const int64_t m = std::min<int64_t>(task.m, 16), n = std::min<int64_t>(task.n, 16);
      EXPECT_GT(allocated_at_most(2 * (m + n) * (task.k + 128) * task.element_bytes +
                                  2 * m * n * task.result_bytes + 6 * MEMORY_STEP) +
                    allocated_at_most(product(m, n, task.k).workspace_bytes),
                memory);
      continue;
    }
    ++planned;
    const int64_t matrices = bytes_of_matrices(*plan, task);
    const int64_t beside = bytes_of_workspace(*plan, task, product);
    EXPECT_EQ(matrices, plan->matrix_bytes);
    EXPECT_EQ(beside, plan->workspace_bytes);
    EXPECT_LE(plan->device_bytes, memory);
    // Whatever free blocks the allocator finds.
    for (int i = 0; i < 20; ++i) {
      const auto found = [&](int64_t bytes) {
        return bytes + random.between(1, 4 * MIB) / 512 * 512 - MIB;
      };
      EXPECT_LE(counted(matrices, found(matrices)) + counted(beside, found(beside)), memory);
    }
    EXPECT_EQ(plan->block_k % SEGMENT_K == 0 || plan->block_k == task.k, true);
    EXPECT_TRUE(plan->steps_k == 1 || task.cuts_k);
    if (plan->tiles() > 20000) continue;
    std::set<std::pair<int64_t, int64_t>> seen;
    for (int64_t index = 0; index < plan->tiles(); ++index) {
      const Tile tile = tile_at(*plan, index);
      EXPECT_TRUE(tile.i >= 0 && tile.i < plan->tiles_m && tile.j >= 0 && tile.j < plan->tiles_n);
      seen.insert({tile.i, tile.j});
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), plan->tiles());
    EXPECT_GE(plan->tiles_m * plan->block_m, task.m);
    EXPECT_LT((plan->tiles_m - 1) * plan->block_m, task.m);
    EXPECT_GE(plan->tiles_n * plan->block_n, task.n);
    EXPECT_LT((plan->tiles_n - 1) * plan->block_n, task.n);
  }
  EXPECT_GT(planned, 300);
}

// The formulas of plan.h, from the slots that the engine uses. Going back and forth past the groups
// saves one streaming block of each but the first.
TEST(Scale, TrafficIsWhatTheFormulasSay) {
  Random random;
  int several = 0;
  for (int round = 0; round < 300; ++round) {
    const Task task = task_of(random.between(500, 20000), random.between(500, 20000),
                              random.between(500, 30000), 4);
    const auto plan = make_plan(task, H200, random.between(64 << 20, GIB), at_full_rate);
    if (!plan || plan->tiles() > 20000) continue;
    const bool a_stays = plan->stays == Stays::A;
    const double a = 4. * task.m * task.k, b = 4. * task.n * task.k;
    const double groups = std::ceil((a_stays ? plan->tiles_m : plan->tiles_n) * 1. / plan->group);
    const double formula = a_stays ? a + groups * b : b + groups * a;
    const double block = 4. * task.k * (a_stays ? plan->block_n : plan->block_m);
    several += groups > 1;
    EXPECT_LE(plan->bytes_in, formula);
    EXPECT_GE(plan->bytes_in, formula - 2 * (groups - 1) * block);
    EXPECT_GE(plan->bytes_in, a + b);
  }
  EXPECT_GT(several, 50);
}

TEST(Scale, WhatFitsMovesOnce) {
  for (const int64_t k : {100, 20000, 100000}) {
    const Task task = task_of(5000, 7000, k);
    const auto plan = make_plan(task, H200, 64 * GIB, at_full_rate);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->bytes_in, (task.m + task.n) * k * 2);
    EXPECT_EQ(plan->bytes_out, task.m * task.n * 2);
  }
}

// Deep K in little memory: rows of all of K would be few.
TEST(Scale, DeepKKeepsCWhereTheContractAllows) {
  Task task = task_of(65536, 65536, 1 << 20);
  const auto cut = make_plan(task, H200, 8 * GIB, at_full_rate);
  task.cuts_k = false;
  const auto whole = make_plan(task, H200, 8 * GIB, at_full_rate);
  ASSERT_TRUE(cut && whole);
  EXPECT_EQ(cut->stays, Stays::C);
  EXPECT_EQ(whole->steps_k, 1);
  EXPECT_LT(cut->bytes_in * 3, whole->bytes_in);
  // Not far from the least of any way of computing it, 2 M N K / sqrt(S) elements.
  const double least = 2. * task.m * task.n * task.k / std::sqrt(8. * GIB / 2) * 2;
  EXPECT_LT(cut->bytes_in, 4 * least);
}

// It does not pay in traffic for what it saves in time (a twentieth of the link's time counts).
TEST(Scale, MoreMemoryNeverCostsMore) {
  for (const int64_t k : {3000, 30000, 65536}) {
    double before = INFINITY;
    for (int64_t memory = 256 << 20; memory < 200 * GIB; memory *= 2) {
      const auto plan = make_plan(task_of(65536, 65536, k), H200, memory, at_full_rate);
      ASSERT_TRUE(plan);
      const double price = plan->seconds + 0.05 * plan->seconds_in;
      EXPECT_LE(price, before * 1.000001);
      before = price;
    }
  }
}

// Whoever takes them, and however slowly.
TEST(Scale, DevicesShareOutEveryTileOnce) {
  Random random;
  for (int round = 0; round < 100; ++round) {
    const Task task = task_of(random.between(1, 9000), random.between(1, 9000), 20000);
    const auto plan = make_plan(task, H200, random.between(32 << 20, GIB), at_full_rate);
    if (!plan || plan->tiles() > 5000) continue;
    const int64_t devices = random.between(1, 8);
    Tiles tiles(*plan, devices);
    std::vector<int> taken(plan->tiles());
    int64_t count = 0;
    for (;;) {
      // The last device is a hundred times as slow as the first.
      const int64_t device = random.between(1, 100) % devices;
      const auto index = tiles.take(device);
      if (!index) break;
      ++taken[*index];
      ++count;
    }
    EXPECT_EQ(count, plan->tiles());
    EXPECT_TRUE(std::all_of(taken.begin(), taken.end(), [](int n) { return n == 1; }));
    for (int64_t device = 0; device < devices; ++device) EXPECT_FALSE(tiles.take(device));
  }
}

TEST(Scale, ThreadsShareOutEveryTileOnce) {
  const auto plan = make_plan(task_of(9000, 9000, 20000), H200, 64 << 20, at_full_rate);
  ASSERT_TRUE(plan);
  Tiles tiles(*plan, 4);
  std::vector<std::atomic<int>> taken(plan->tiles());
  std::vector<std::thread> threads;
  for (int64_t device = 0; device < 4; ++device)
    threads.emplace_back([&, device] {
      while (const auto index = tiles.take(device)) ++taken[*index];
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(std::all_of(taken.begin(), taken.end(), [](auto& n) { return n == 1; }));
}

// Two devices are to be done together, so that a tile more or less counts for little.
TEST(Scale, SeveralDevicesGetEnoughTiles) {
  Task task = task_of(65536, 65536, 65536, 4);
  Rates rates = H200;
  rates.flops = 51e12;
  const auto one = make_plan(task, rates, 8 * GIB, at_full_rate);
  for (task.devices = 2; task.devices <= 8; task.devices *= 2) {
    const auto several = make_plan(task, rates, 8 * GIB, at_full_rate);
    ASSERT_TRUE(one && several);
    EXPECT_GT(one->seconds / several->seconds, 0.9 * task.devices);
  }
}

// An allocator may hand out a MiB more than it was asked for, and no more.
TEST(Scale, AnAllocationTakesAtMostAMiBMore) {
  Random random;
  int64_t most = 0;
  for (int round = 0; round < 10000; ++round) {
    const int64_t bytes = random.between(1, GIB);
    const int64_t free = (bytes + random.between(1, 2 * MIB)) / 512 * 512;
    const int64_t taken = counted(bytes, round % 2 ? free : 0);
    EXPECT_LE(taken, allocated_at_most(bytes));
    most = std::max(most, taken - bytes);
  }
  EXPECT_GT(most, MIB * 9 / 10);
  for (const int64_t bytes : {MIB - 1, MIB, MIB + 1, 10 * MIB, 10 * MIB + 1})
    EXPECT_LE(counted(bytes, 0), allocated_at_most(bytes));
}

// Rows of all of K are one piece in the host's memory; parts of them, or of B's, are apart.
TEST(Scale, WhatTheLinkBoundsCrossesItInOnePiece) {
  Task task = task_of(65536, 64, 65536, 4);
  const auto tall = make_plan(task, H200, 64 * GIB, at_full_rate);
  ASSERT_TRUE(tall);
  EXPECT_EQ(tall->block_k, task.k);
  EXPECT_NEAR(tall->seconds, (task.m + task.n) * task.k * 4. / H200.to_device, 0.03);
  // Where the columns of B are contiguous along k, some of them are one piece: products hide behind
  // the next.
  task = task_of(4096, 16384, 16384);
  const auto along = make_plan(task, H200, 64 * GIB, at_full_rate);
  ASSERT_TRUE(along);
  EXPECT_GT(along->tiles(), 1);
  // Or across it: only all of them are.
  task = task_of(16, 16384, 16384);
  task.b_along_k = false;
  const auto across = make_plan(task, H200, 64 * GIB, at_full_rate);
  ASSERT_TRUE(across);
  EXPECT_EQ(across->tiles_n, 1);
  EXPECT_NEAR(across->seconds, (task.m + task.n) * task.k * 2. / H200.to_device, 1e-4);
}

// A product takes as long as its kernel says, where that is longer than its flops would take.
TEST(Scale, SlowTilesAreAvoided) {
  const Task task = task_of(20000, 20000, 20000);
  const ProductOf slow_if_narrow = [](int64_t m, int64_t n, int64_t k) {
    return Product{0, 2. * m * n * k / 650e12 * (std::min(m, n) < 4096 ? 3 : 1)};
  };
  const auto any = make_plan(task, H200, 2 * GIB, at_full_rate);
  const auto wide = make_plan(task, H200, 2 * GIB, slow_if_narrow);
  ASSERT_TRUE(any && wide);
  EXPECT_LT(std::min(any->block_m, any->block_n), 4096);
  EXPECT_GE(std::min(wide->block_m, wide->block_n), 4096);
  EXPECT_LE(any->seconds, wide->seconds);
}

TEST(Scale, LinksAreThoseOfTheStandards) {
  constexpr double DATA = 0.88;  // less what packets take
  EXPECT_NEAR(link_rate(90) / 1e9, 63 * DATA, 0.1);
  EXPECT_NEAR(link_rate(75) / 1e9, 15.75 * DATA, 0.01);
  EXPECT_NEAR(link_rate(10) / 1e9, 4 * DATA, 1e-9);
  EXPECT_LT(usable(10 * GIB), 10 * GIB);
  EXPECT_GT(usable(100 << 20), 0);
}

}  // namespace
}  // namespace tiled::scale
