// Times of ways by the formula, and the choice that follows. No test here says which way is the
// best for a problem, since rules are data.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <tuple>

#include "cuda/plan/estimate.h"
#include "cuda/plan/measured.h"
#include "drawn_rules.h"

namespace tiled::test {
namespace {

// ---- the formula ----------------------------------------------------------------------------

// visit(rung, plan, seconds) of every way that may be chosen.
template <typename Visitor>
void for_estimates(const Problem& p, const DeviceInfo& d, const Rules& rules, Visitor visit) {
  for (const Rung* rung : ladder())
    if (rung->use == Use::Chosen)
      for (const Plan& plan : plans_of(rung->algo, p, d))
        visit(*rung, plan, estimated_seconds(p, d, rules, plan));
}

TEST(Estimates, AreTimesOnEveryNamedDevice) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 60; ++i) {
    Problem p = drawn_problem(random);
    if (i % 4 == 3) (i % 3 == 0 ? p.m : i % 3 == 1 ? p.n : p.k) = 0;
    const Rules drawn = drawn_rules(random);
    for (const std::string& name : device_names()) {
      const DeviceInfo d = device(name.c_str());
      for (const Rules* rules : {&shipped_rules(d), &drawn})
        for_estimates(p, d, *rules, [&](const Rung& rung, const Plan&, double seconds) {
          EXPECT_TRUE(std::isfinite(seconds) && seconds > 0)
              << seconds << " of " << name_of(rung.algo) << " on " << name << " for " << p.m
              << " x " << p.n << " x " << p.k << ' ' << name_of(p.dtype);
        });
    }
  }
}

// The same way of a problem with a longer K, if there is one.
TEST(Estimates, GrowWithK) {
  std::mt19937_64 random(5);
  int found = 0;
  for (const char* name : {"h200", "h100", "a100", "t4"})
    for (int i = 0; i < 60; ++i) {
      const DeviceInfo d = device(name);
      Problem p = drawn_problem(random);
      p.a.alignment = p.b.alignment = 16;
      p.k = 1 + p.k % 20000;
      const Rules drawn = drawn_rules(random);
      for (const Rules* rules : {&shipped_rules(d), &drawn}) {
        std::vector<std::tuple<Algo, NamedWay, double>> before;
        for_estimates(p, d, *rules, [&](const Rung& rung, const Plan& plan, double seconds) {
          before.emplace_back(rung.algo, name_of_way(p, plan), seconds);
        });
        Problem longer = p;
        longer.k *= 2;
        for_estimates(longer, d, *rules, [&](const Rung& rung, const Plan& plan, double seconds) {
          const NamedWay way = name_of_way(longer, plan);
          for (const auto& [algo, same, shorter] : before)
            if (algo == rung.algo && same == way) {
              ++found;
              EXPECT_GE(seconds, shorter) << name << ' ' << name_of(algo) << ' ' << way.tile
                                          << " for " << p.m << " x " << p.n << " x " << p.k;
            }
        });
      }
    }
  EXPECT_GT(found, 10000);
}

// A layer's: bias along N, and where it is asked for an activation, and its pre-activation kept.
Problem finished(Problem p, Activation activation = Activation::None, bool keeps = false) {
  static float memory;  // never read
  p.epilogue.bias_along = Along::N, p.epilogue.bias_dtype = p.dtype, p.epilogue.bias_stride = 1;
  p.epilogue.activation = activation;
  if (keeps) p.epilogue.pre_activation = {&memory, p.n, 1, 0, p.epilogue.out_dtype};
  return p;
}

TEST(Estimates, CountEpiloguesAndTheBytesOfC) {
  const DeviceInfo d = device("h200");
  std::mt19937_64 random(6);
  const Rules rules = drawn_rules(random);
  const Problem bare = tensor_problem("nt", 2048, 4096, 1024);
  for (const Plan& plan : plans_of(Algo::Hopper, bare, d)) {
    const double seconds = estimated_seconds(bare, d, rules, plan);
    for (const Activation activation : {Activation::None, Activation::Relu})
      EXPECT_EQ(estimated_seconds(finished(bare, activation), d, rules, plan), seconds);
    EXPECT_GT(estimated_seconds(finished(bare, Activation::Gelu), d, rules, plan), seconds);
  }
  // int32 sums of bytes have a C four times as large, which is most that a short K moves.
  const Problem bytes = problem_of("nt", 8192, 8192, 64, DType::Int8);
  Problem sums = bytes;
  sums.epilogue.out_dtype = DType::Int32;
  for (const Plan& plan : plans_of(Algo::AsyncMma, bytes, d))
    EXPECT_GT(estimated_seconds(sums, d, rules, plan), estimated_seconds(bytes, d, rules, plan));
}

// The plan of hopper's tile of this name.
Plan hopper_plan(const Problem& p, const DeviceInfo& d, const NamedWay& name) {
  const auto plan = plan_of_way(p, d, Algo::Hopper, name);
  if (!plan) throw std::logic_error("no such way");
  return *plan;
}

// The bytes that blocks far apart load both, and how often a line is asked for, are of the tiles
// across; a cluster loads as one.
TEST(Demands, CountWhatIsLoadedTogether) {
  const DeviceInfo d = device("h200");
  const Problem p = tensor_problem("nt", 256, 8192, 8192);  // Q: 8192 rows in 64 tiles
  const auto demand = [&](int cluster_p, int cluster_q) {
    return hopper_plan(p, d, {"Coop128x128", false, cluster_p, cluster_q, false}).demand;
  };
  const double a = 256.0 * 8192 * 2, b = 8192.0 * 8192 * 2;
  EXPECT_DOUBLE_EQ(demand(1, 1).again_bytes, a * 63 / 64 + b / 2);
  EXPECT_DOUBLE_EQ(demand(2, 1).again_bytes, a * 63 / 64);  // both of Q's loads are one
  EXPECT_DOUBLE_EQ(demand(1, 2).again_bytes, a * 31 / 32 + b / 2);
  EXPECT_DOUBLE_EQ(demand(1, 1).line_loads, 64);
  EXPECT_DOUBLE_EQ(demand(1, 2).line_loads, 32);
  // A line of 128 bytes holds two rows of 64, each with a load of its own.
  const Problem strip = tensor_problem("nt", 128 * 1000, 64, 32);
  EXPECT_DOUBLE_EQ(hopper_plan(strip, d, {"Coop128x128", false, 1, 1, false}).demand.line_loads,
                   2 * 1000);
}

TEST(Demands, KnowRowsThatBeginOffASector) {
  const DeviceInfo d = device("h200");
  const auto demand = [&](int64_t k) {
    const Problem p = tensor_problem("nt", 1024, 1024, k);
    return hopper_plan(p, d, {"Coop128x128", false, 1, 1, false}).demand;
  };
  EXPECT_EQ(demand(1024).off_sector_bytes, 0);
  EXPECT_EQ(demand(1040).off_sector_bytes, 0);                          // 2080 bytes
  EXPECT_EQ(demand(1032).off_sector_bytes, demand(1032).loaded_bytes);  // 2064
}

// ---- the choice -----------------------------------------------------------------------------

bool is_same(const Problem& p, const Plan& x, const Plan& y) {
  return x.algo == y.algo && x.workspace_bytes == y.workspace_bytes &&
         (x.step_count == 0 || name_of_way(p, x) == name_of_way(p, y));
}

TEST(Choices, AreTheLeastOfTheRankedWays) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; ++i) {
    const Problem p = drawn_problem(random);
    const Rules rules = drawn_rules(random);
    for (const char* name : {"h200", "a100", "t4"}) {
      const DeviceInfo d = device(name);
      const std::vector<Choice> ways = ranked_ways(p, d, rules);
      const Choice best = choose(p, d, rules);
      ASSERT_EQ(ways.empty(), supported_algos(p, d).empty());
      if (ways.empty()) continue;
      EXPECT_EQ(best.seconds, ways.front().seconds);
      EXPECT_EQ(best.plan.algo, ways.front().plan.algo);
      EXPECT_TRUE(name_of_way(p, best.plan) == name_of_way(p, ways.front().plan));
      EXPECT_TRUE(supports(best.plan.algo, p, d));
      for (size_t j = 1; j < ways.size(); ++j) {
        EXPECT_LE(ways[j - 1].seconds, ways[j].seconds);
        EXPECT_EQ(rung_of(ways[j].plan.algo)->use, Use::Chosen);
      }
      for (const Algo algo : supported_algos(p, d))
        EXPECT_EQ(choose(p, d, rules, &algo).plan.algo, algo);
    }
  }
}

// Plans are remembered; what is remembered must be the same problem's, on the same device.
TEST(Choices, AreNotMistakenForAnothers) {
  const DeviceInfo d = device("h200");
  DeviceInfo slow = d, narrow = d, few = d, old = d;
  slow.clock_hz /= 8, narrow.memory_bandwidth /= 8, few.multiprocessors = 16;
  old.hopper_kernels = false;
  int others[4] = {};
  std::mt19937_64 random(8);
  for (int i = 0; i < 100; ++i) {
    const Problem p = drawn_problem(random);
    const DeviceInfo* const devices[] = {&slow, &narrow, &few, &old};
    const Plan here = make_plan(p, d);
    for (int j = 0; j < 4; ++j) {
      const Plan there = make_plan(p, *devices[j]);
      EXPECT_TRUE(is_same(p, there, choose(p, *devices[j], shipped_rules(*devices[j])).plan));
      EXPECT_TRUE(is_same(p, make_plan(p, d), here));
      others[j] += !is_same(p, there, here);
    }
  }
  for (const int count : others) EXPECT_GT(count, 0);
}

// A bare product's plan is not taken for one with a bias, nor the other way round; so it is with
// activations, a pre-activation that is kept, and what is asked of A, C and K.
TEST(Choices, AreOfTheirProblem) {
  const DeviceInfo d = device("h200");
  for (const int64_t m : {96, 256, 512, 1024, 1536})
    for (const int64_t n : {256, 1024, 4096}) {
      const Problem bare = tensor_problem("nt", m, n, 1024);
      Problem misaligned = bare, wide = bare, deep = tensor_problem("nt", m, n, 32768);
      misaligned.a.alignment = 2;
      wide.epilogue.out_dtype = DType::Float32;
      const Problem all[] = {bare,
                             finished(bare),
                             finished(bare, Activation::Relu),
                             finished(bare, Activation::Gelu),
                             finished(bare, Activation::Gelu, /*keeps=*/true),
                             misaligned,
                             wide,
                             deep};
      for (int round = 0; round < 2; ++round)
        for (const Problem& p : all) {
          EXPECT_TRUE(is_same(p, make_plan(p, d), choose(p, d, shipped_rules(d)).plan));
          const Algo algo = Algo::Hopper;
          const Plan plan = make_plan(p, d, algo);
          EXPECT_TRUE(is_same(p, plan, choose(p, d, shipped_rules(d), &algo).plan));
          EXPECT_TRUE(hopper_of(plan).stores_by_tma);
          EXPECT_EQ(copies_p(hopper_of(plan)) || copies_q(hopper_of(plan)), p.a.alignment == 2);
        }
    }
}

}  // namespace
}  // namespace tiled::test
