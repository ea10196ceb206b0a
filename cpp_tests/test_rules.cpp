// Rules as text, on other chips, and what follows from them: times of ways, and the choice. No test
// here says which way is the best for a problem, since rules are data.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <tuple>

#include "cuda/plan/estimate.h"
#include "planned.h"

namespace tiled::test {
namespace {

std::vector<std::string> variants_of(const Rung& rung) {
  return rung.variants != nullptr ? rung.variants() : std::vector<std::string>{"tile"};
}

Rules parsed(const std::string& text) {
  std::string error;
  const Rules rules = Rules::parse(text, error);
  EXPECT_EQ(error, "");
  return rules;
}

// Numbers for every tile in every kind.
Rules drawn_rules(std::mt19937_64& random) {
  const auto number = [&] { return static_cast<double>(1 + random() % 1000) * 1e-8; };
  std::ostringstream text;
  for (const Rung* rung : ladder())
    for (const std::string& variant : variants_of(*rung))
      for (int kind = 0; kind < KIND_COUNT; ++kind) {
        text << "tile " << name_of(rung->algo) << ' ' << name_of(static_cast<Kind>(kind));
        for (int i = 0; i < 4; ++i) text << ' ' << number();
        text << " 1.1 0.9 " << variant << '\n';
      }
  return parsed(text.str());
}

// ---- text -----------------------------------------------------------------------------------

TEST(RulesText, IsReadAsItIsWritten) {
  const Rung& hopper = *rung_of(Algo::Hopper);
  const Rung& copying = *rung_of(Algo::RegisterTile);  // names of several words
  const Rules rules = parsed(
      "# tiled_mm rules\n# device h100\nchip memory 2.5e+12\n\ntile hopper 16bit 1e-07 2e-07 3e-06 "
      "4e-06 1.5 1.25 " +
      hopper.variants()[3] + "\ntile register_tile float32 1 2 3 4 5 6 " + copying.variants()[1] +
      "\n");
  EXPECT_EQ(rules.source, "tiled_mm rules\ndevice h100\n");
  EXPECT_EQ(rules.chip().memory, 2.5e12);
  EXPECT_EQ(rules.chip().cache, ChipRates().cache);
  const TileRates& tile = rules.tile(Algo::Hopper, 3, Kind::Sixteen);
  EXPECT_EQ(tile.busy, 1e-7);
  EXPECT_EQ(tile.latency, 2e-7);
  EXPECT_EQ(tile.end, 3e-6);
  EXPECT_EQ(tile.start, 4e-6);
  EXPECT_EQ(tile.p_mn, 1.5);
  EXPECT_EQ(tile.q_mn, 1.25);
  EXPECT_NE(copying.variants()[1].find(' '), std::string::npos);
  EXPECT_EQ(rules.tile(Algo::RegisterTile, 1, Kind::Float32).q_mn, 6);
}

TEST(RulesText, ADamagedLineIsRefusedAndSaid) {
  const std::string variant = rung_of(Algo::Hopper)->variants()[0];
  for (const std::string& line :
       {std::string("chip memory"), std::string("chip memory fast"), std::string("chip memory -1"),
        std::string("chip nothing 1"), std::string("rule 1"),
        std::string("tile hopper 16bit 1 2 3"), "tile nowhere 16bit 1 2 3 4 5 6 " + variant,
        "tile blocked 16bit 1 2 3 4 5 6 " + variant, "tile hopper 17bit 1 2 3 4 5 6 " + variant,
        "tile hopper 16bit 1 2 x 4 5 6 " + variant, "tile hopper 16bit 0 2 3 4 5 6 " + variant,
        std::string("tile hopper 16bit 1 2 3 4 5 6")}) {
    std::string error;
    Rules::parse("chip memory 1e12\n" + line + "\n", error);
    EXPECT_EQ(error, "cannot read the line '" + line + "'");
  }
}

TEST(RulesText, ATileThatNoLongerExistsIsLeftOut) {
  const Rules rules = parsed("tile hopper 16bit 9 9 9 9 9 9 Coop1x1\n");
  EXPECT_EQ(rules.tile(Algo::Hopper, 0, Kind::Sixteen).busy,
            Rules(parsed("")).tile(Algo::Hopper, 0, Kind::Sixteen).busy);
}

// By the tile in another kind, then by another of the rung.
TEST(RulesText, GapsAreFilled) {
  const std::vector<std::string> names = rung_of(Algo::Hopper)->variants();
  const Rules rules = parsed("tile hopper 16bit 1 1 1 1 1 1 " + names[0] +
                             "\ntile hopper 16bit 2 2 2 2 2 2 " + names[1] + "\n");
  EXPECT_EQ(rules.tile(Algo::Hopper, 0, Kind::Tf32).busy, 1);
  EXPECT_EQ(rules.tile(Algo::Hopper, 1, Kind::Tf32).busy, 2);
  for (size_t variant = 2; variant < names.size(); ++variant)
    EXPECT_GT(rules.tile(Algo::Hopper, static_cast<int>(variant), Kind::Sixteen).busy, 0.5);
  for (const Rung* rung : ladder())
    for (size_t variant = 0; variant < variants_of(*rung).size(); ++variant)
      for (int kind = 0; kind < KIND_COUNT; ++kind)
        EXPECT_GT(rules.tile(rung->algo, static_cast<int>(variant), static_cast<Kind>(kind)).busy,
                  0);
}

// Numbers are a variant's by its name, in which others before it have no part. (Accumulators of 8
// bytes and more have two tiles, the second of which stands for a third.)
TEST(RulesText, EachVariantHasItsOwnNumbers) {
  for (const Rung* rung : ladder()) {
    const std::vector<std::string> names = variants_of(*rung);
    std::string text;
    for (size_t i = 0; i < names.size(); ++i)
      if (std::find(names.begin(), names.begin() + i, names[i]) == names.begin() + i)
        text += "tile " + std::string(name_of(rung->algo)) + " 16bit " + std::to_string(i + 1) +
                " 1 1 1 1 1 " + names[i] + '\n';
    const Rules rules = parsed(text);
    for (size_t i = 0; i < names.size(); ++i)
      if (std::find(names.begin(), names.begin() + i, names[i]) == names.begin() + i)
        EXPECT_EQ(rules.tile(rung->algo, static_cast<int>(i), Kind::Sixteen).busy, i + 1)
            << name_of(rung->algo) << ' ' << names[i];
  }
}

// ---- other chips ----------------------------------------------------------------------------

TEST(ScaledRules, FollowWhatTheChipHas) {
  std::mt19937_64 random(3);
  const Rules rules = drawn_rules(random);
  const DeviceInfo h100 = device("h100");
  const auto scaled = [&](auto change) {
    DeviceInfo other = h100;
    change(other);
    return rules.scaled(h100, other);
  };
  const auto busy = [](const Rules& r, Algo algo, Kind kind) { return r.tile(algo, 1, kind).busy; };
  const auto wait = [](const Rules& r) { return r.tile(Algo::Hopper, 1, Kind::Sixteen); };

  const Rules same = scaled([](DeviceInfo&) {});
  EXPECT_EQ(same.chip().memory, rules.chip().memory);
  EXPECT_EQ(wait(same).busy, wait(rules).busy);

  const Rules narrow = scaled([](DeviceInfo& d) { d.memory_bandwidth /= 2; });
  EXPECT_DOUBLE_EQ(narrow.chip().memory, rules.chip().memory / 2);
  EXPECT_DOUBLE_EQ(narrow.chip().copy, rules.chip().copy / 2);
  EXPECT_EQ(narrow.chip().cache, rules.chip().cache);
  EXPECT_EQ(wait(narrow).busy, wait(rules).busy);

  const Rules fast = scaled([](DeviceInfo& d) { d.clock_hz *= 2; });
  EXPECT_DOUBLE_EQ(wait(fast).latency, wait(rules).latency / 2);
  EXPECT_DOUBLE_EQ(wait(fast).end, wait(rules).end / 2);
  EXPECT_DOUBLE_EQ(fast.chip().cache, rules.chip().cache * 2);
  EXPECT_EQ(fast.chip().memory, rules.chip().memory);

  const Rules slow = scaled([](DeviceInfo& d) { d.tensor_flops /= 4; });
  EXPECT_DOUBLE_EQ(wait(slow).busy, wait(rules).busy * 4);
  EXPECT_EQ(wait(slow).latency, wait(rules).latency);
  EXPECT_EQ(busy(slow, Algo::RegisterTile, Kind::Float32),
            busy(rules, Algo::RegisterTile, Kind::Float32));

  const Rules single = scaled([](DeviceInfo& d) { d.fp32_flops /= 2; });
  EXPECT_DOUBLE_EQ(busy(single, Algo::RegisterTile, Kind::Float32),
                   busy(rules, Algo::RegisterTile, Kind::Float32) * 2);
  EXPECT_EQ(wait(single).busy, wait(rules).busy);

  // Twice as many multiprocessors with as much each: a step of a tile takes as long as before.
  const Rules large = scaled([](DeviceInfo& d) {
    d.multiprocessors *= 2, d.tensor_flops *= 2, d.fp32_flops *= 2, d.fp64_flops *= 2;
  });
  EXPECT_DOUBLE_EQ(wait(large).busy, wait(rules).busy);
  EXPECT_DOUBLE_EQ(large.chip().cache, rules.chip().cache * 2);
}

// Devices of one name may run at other clocks, or lend some of their multiprocessors alone.
TEST(ScaledRules, AreADevicesOwnNotItsNames) {
  DeviceInfo d = device("a100");
  const double before = shipped_rules(d).tile(Algo::AsyncMma, 0, Kind::Sixteen).latency;
  d.clock_hz *= 2;
  EXPECT_DOUBLE_EQ(shipped_rules(d).tile(Algo::AsyncMma, 0, Kind::Sixteen).latency, before / 2);
}

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

// A layer's: bias along N, and where it is asked for an activation, and the value before it kept.
Problem finished(Problem p, Activation activation = Activation::None, bool keeps = false) {
  static float memory;  // never read
  p.epilogue.bias_along = Along::N, p.epilogue.bias_dtype = p.dtype, p.epilogue.bias_stride = 1;
  p.epilogue.activation = activation;
  if (keeps) p.epilogue.before = {&memory, p.n, 1, 0, p.epilogue.out_dtype};
  return p;
}

TEST(Estimates, CountEpiloguesAndTheBytesOfC) {
  const DeviceInfo d = device("h200");
  std::mt19937_64 random(6);
  const Rules rules = drawn_rules(random);
  const Problem bare = tensor_problem("nt", 2048, 4096, 1024);
  for (const Plan& plan : plans_of(Algo::Hopper, bare, d)) {
    if (plan.demand.stream_k) continue;  // of bare products alone
    for (const Activation activation : {Activation::None, Activation::Relu, Activation::Gelu})
      EXPECT_GT(estimated_seconds(finished(bare, activation), d, rules, plan),
                estimated_seconds(bare, d, rules, plan));
  }
  // int32 sums of bytes have a C four times as large, which is most that a short K moves.
  const Problem bytes = problem_of("nt", 8192, 8192, 64, DType::Int8);
  Problem sums = bytes;
  sums.epilogue.out_dtype = DType::Int32;
  for (const Plan& plan : plans_of(Algo::AsyncMma, bytes, d))
    EXPECT_GT(estimated_seconds(sums, d, rules, plan), estimated_seconds(bytes, d, rules, plan));
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
      const std::vector<RankedWay> ways = ranked_ways(p, d, rules);
      const Choice best = choose(p, d, rules);
      ASSERT_EQ(ways.empty(), supported_algos(p, d).empty());
      if (ways.empty()) continue;
      EXPECT_EQ(best.seconds, ways.front().seconds);
      EXPECT_EQ(best.plan.algo, ways.front().algo);
      EXPECT_TRUE(name_of_way(p, best.plan) == ways.front().name);
      EXPECT_TRUE(supports(best.plan.algo, p, d));
      for (size_t j = 1; j < ways.size(); ++j) {
        EXPECT_LE(ways[j - 1].seconds, ways[j].seconds);
        EXPECT_EQ(rung_of(ways[j].algo)->use, Use::Chosen);
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

// What was planned for a bare product is not taken for one with a bias, nor the other way round; so
// it is with activations, a value before them that is kept, and what is asked of A, C and K.
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
          EXPECT_EQ(hopper_of(plan).store,
                    size_of(p.epilogue.out_dtype) == 4 ? StorePath::Scatter : StorePath::Tma);
          EXPECT_EQ(hopper_of(plan).repack_p || hopper_of(plan).repack_q, p.a.alignment == 2);
        }
    }
}

}  // namespace
}  // namespace tiled::test
