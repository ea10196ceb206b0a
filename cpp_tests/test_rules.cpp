// Rules as text, and on other chips than their own.
#include <gtest/gtest.h>

#include <algorithm>

#include "drawn_rules.h"

namespace tiled::test {
namespace {

// ---- text -----------------------------------------------------------------------------------

TEST(RulesText, IsReadAsItIsWritten) {
  const Rung& hopper = *rung_of(Algo::Hopper);
  const Rung& copying = *rung_of(Algo::RegisterTile);  // names of several words
  const Rules rules = parsed(
      "# tiled_mm rules\n# device h100\nchip memory 2.5e+12\n\ntile hopper 16bit 1e-07 2e-07 3e-06 "
      "4e-06 1.5 1.25 " +
      hopper.variants()[3] + "\ntile register_tile float32 1 2 3 4 5 6 " + copying.variants()[1] +
      "\n");
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
      if (std::find(names.begin(), names.begin() + i, names[i]) == names.begin() + i) {
        EXPECT_EQ(rules.tile(rung->algo, static_cast<int>(i), Kind::Sixteen).busy, i + 1)
            << name_of(rung->algo) << ' ' << names[i];
      }
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

// An H200 reports 4.92 TB/s where its sheet has 4.8.
TEST(ScaledRules, ADeviceCountsAsItsSheetHasIt) {
  DeviceInfo d = device("h200");
  const double memory = shipped_rules(d).chip().memory;
  d.memory_bandwidth = 4.92e12;
  EXPECT_EQ(shipped_rules(d).chip().memory, memory);
  d.memory_bandwidth = 4e12;
  EXPECT_LT(shipped_rules(d).chip().memory, memory);
}

}  // namespace
}  // namespace tiled::test
