// The models' constants on the chip that they were fitted on, where no plan may change unless they
// do, and on others of its kind, whose plans must follow from what these chips have.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "planned.h"

namespace tiled::test {
namespace {

constexpr const char* CHIPS[] = {"h200", "h100", "h100-pcie", "h20", "gh200"};

// An H200 as its driver describes it: the pins' rate instead of the data sheet's.
DeviceInfo h200_at_hand() {
  DeviceInfo d = device("h200");
  d.memory_bandwidth = 2 * 3.201e9 * 6144 / 8;
  return d;
}

TEST(ChipScale, IsOneOnAnH200) {
  for (const DeviceInfo& d : {device("h200"), h200_at_hand()}) {
    const ChipScale s = scale_of(d);
    for (const double factor :
         {s.clock, s.multiprocessors, s.dram, s.l2, s.tensor, s.fp64, s.fp64_tensor, s.l2_share()})
      EXPECT_EQ(factor, 1);
    EXPECT_EQ(slowdown_of(d), H200_SLOWDOWN);
  }
}

// From the data sheets.
TEST(ChipScale, OfOtherChips) {
  const ChipScale pcie = scale_of(device("h100-pcie"));
  EXPECT_DOUBLE_EQ(pcie.clock, 1.755 / 1.98);
  EXPECT_DOUBLE_EQ(pcie.multiprocessors, 114. / 132);
  EXPECT_DOUBLE_EQ(pcie.dram, 2000. / 4800 / (1.755 / 1.98));
  EXPECT_DOUBLE_EQ(pcie.l2, 50. / 60);
  EXPECT_EQ(pcie.tensor, 1);
  const ChipScale h20 = scale_of(device("h20"));
  EXPECT_EQ(h20.clock, 1);
  EXPECT_EQ(h20.tensor, 0.25);
  EXPECT_DOUBLE_EQ(h20.dram, 4000. / 4800);
  EXPECT_EQ(h20.fp64, 1. / 16);
  EXPECT_EQ(h20.fp64_tensor, 1. / 32);
  EXPECT_GT(h20.l2_share(), 1.6);  // as much L2 for 78 multiprocessors as for 132
  const ChipScale gh200 = scale_of(device("gh200"));
  EXPECT_EQ(gh200.clock * gh200.multiprocessors * gh200.l2 * gh200.tensor, 1);
  EXPECT_LT(gh200.dram, 1);
}

TEST(ChipScale, OfOtherCapabilitiesIsNone) {
  for (const char* name : {"a100", "t4", "k40", "g80"}) {
    const ChipScale s = scale_of(device(name));
    EXPECT_EQ(s.clock * s.multiprocessors * s.dram * s.l2 * s.tensor * s.fp64 * s.fp64_tensor, 1);
  }
}

// Half of the power for as many multiply-adds makes products slower; tensor cores of a quarter of
// the rate never draw as much as would slow them.
TEST(ChipScale, PowerSlowsTensorCores) {
  DeviceInfo d = device("h200");
  d.power_limit = 350;
  EXPECT_GT(slowdown_of(d), 1.2 * (1 + H200_SLOWDOWN) - 1);
  EXPECT_LT(slowdown_of(d), 1.4 * (1 + H200_SLOWDOWN) - 1);
  d.power_limit = 2000;
  EXPECT_EQ(slowdown_of(d), 0);
  d.power_limit = 0;  // not known
  EXPECT_EQ(slowdown_of(d), H200_SLOWDOWN);
  EXPECT_GT(slowdown_of(device("h100-pcie")), H200_SLOWDOWN);
  EXPECT_EQ(slowdown_of(device("h20")), 0);
}

// The seconds of an estimate by hopper's model, whose cycles are an H200's of 1755 MHz, by the fit.
double seconds(const DeviceInfo& d, double cycles, double mhz = 1755) {
  return cycles / (d.clock_hz * mhz / 1980);
}

double least_cycles(const Problem& p, const DeviceInfo& d, Algo algo) {
  double least = std::numeric_limits<double>::infinity();
  rung_of(algo)->ways(p, d, [&](const Way&, double cycles) { least = std::min(least, cycles); });
  return least;
}

// Large products run near what tensor cores and power allow, products of few rows at the memory's
// speed; on no chip faster than its roofline.
TEST(Estimates, KeepToEachChipsRoofline) {
  for (const char* name : CHIPS) {
    const DeviceInfo d = device(name);
    for (const int64_t m : {16, 512, 4096, 8192}) {
      const Problem p = tensor_problem("nn", m, 8192, 8192);
      const double flops = 2.0 * m * 8192 * 8192, bytes = 2.0 * (2 * m * 8192 + 8192. * 8192);
      const double allowed = d.tensor_flops / (1 + slowdown_of(d));
      const double bound = roofline(d, bytes, flops, d.tensor_flops).seconds_bound;
      const double estimate = seconds(d, least_cycles(p, d, Algo::Hopper));
      // The model counts a little less for DRAM than the data sheets' rate, which L2 hides.
      EXPECT_GT(estimate, 0.7 * bound) << name << ' ' << m;
      if (m >= 4096) {
        EXPECT_GT(estimate, bound) << name << ' ' << m;
        EXPECT_LT(estimate, 1.25 * flops / allowed) << name << ' ' << m;
      }
    }
  }
}

// With a quarter of the tensor cores' rate and as much L2, an H20's products wait for them alone:
// smaller tiles, which leave fewer multiprocessors idle, are as good as large ones there.
TEST(Estimates, OfAnH20AreBoundByItsTensorCores) {
  const DeviceInfo h20 = device("h20"), h200 = device("h200");
  for (const int64_t size : {2048, 4096, 8192}) {
    const Problem p = tensor_problem("nn", size, size, size);
    for (const HopperPlan& plan : hopper_plans(p, h20)) {
      const HopperTileInfo& tile = hopper_tile(plan.tile);
      if (tile.block_p * tile.block_q < 128 * 64 || plan.share_segments) continue;
      const HopperEstimate there = estimate(p, h20, HopperModel(h20, p.arithmetic), plan);
      const HopperEstimate here = estimate(p, h200, HopperModel(h200, p.arithmetic), plan);
      EXPECT_GT(there.tensor, there.feed) << size << ' ' << hopper_tile_name(plan.tile);
      EXPECT_GT(there.tensor, there.shared) << size << ' ' << hopper_tile_name(plan.tile);
      EXPECT_GT(there.tensor / there.feed, 2 * here.tensor / here.feed);
    }
  }
  const Problem p = tensor_problem("nn", 4096, 4096, 4096);
  EXPECT_LE(make_plan(p, h20).block_m * make_plan(p, h20).block_n, 128 * 128);
}

// What waits for memory on an H200 waits for the tensor cores on an H20 already: it has a seventh
// of their rate, and five sixths of the bandwidth.
TEST(Estimates, TheBalanceOfAnH20IsLow) {
  const auto slower = [](int64_t m) {
    const Problem p = tensor_problem("nt", m, 8192, 8192);
    const DeviceInfo h20 = device("h20"), h200 = device("h200");
    return seconds(h20, least_cycles(p, h20, Algo::Hopper)) /
           seconds(h200, least_cycles(p, h200, Algo::Hopper));
  };
  EXPECT_LT(slower(16), 1.3);  // 4.8 to 4.0 TB/s
  EXPECT_GT(slower(512), 3.5);
  EXPECT_GT(slower(8192), 4.4);
}

// Whichever chip: fp16x3 in tiles of planes is bound by the same tensor cores. Its model counts the
// cycles of an H200 that all multiprocessors have slowed, to 1580 MHz.
TEST(Estimates, OfFp16x3FollowTheTensorCores) {
  const Problem p = parts_problem("nt", 8192, 8192, 8192);
  for (const char* name : CHIPS) {
    const DeviceInfo d = device(name);
    const double flops = 3 * 2.0 * 8192 * 8192 * 8192;
    const double estimate = seconds(d, least_cycles(p, d, Algo::Fp16x3), 1580);
    EXPECT_GT(estimate, flops / d.tensor_flops) << name;
    EXPECT_LT(estimate, 2 * flops / d.tensor_flops) << name;
  }
}

TEST(Estimates, OfFp64FollowItsUnits) {
  const Problem p = problem_of(4096, 4096, 4096, DType::Float64);
  const DeviceInfo h20 = device("h20"), h200 = device("h200");
  for (const Algo algo : {Algo::MmaTile, Algo::RegisterTile}) {
    const double slower = least_cycles(p, h20, algo) / least_cycles(p, h200, algo);
    EXPECT_GT(slower, 10) << name_of(algo);
    EXPECT_LT(slower, 64) << name_of(algo);
  }
}

// ---- an H200's plans ------------------------------------------------------------------------

class Digest {
 public:
  void add(int64_t value) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash_ ^= static_cast<uint64_t>(value) >> shift & 255;
      hash_ *= 0x100000001b3;  // FNV-1a
    }
  }
  void add(const Plan& plan) {
    for (const int64_t value : {int64_t{plan.block_m}, int64_t{plan.block_n}, plan.workspace_bytes})
      add(value);
    for (const Step& step : plan)
      for (const int64_t value :
           {int64_t{step.cluster}, int64_t{step.threads_x}, step.grid_x, step.workspace_bytes})
        add(value);
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

// Sizes spread over their logarithms, a third of them multiples of 8; any layout and dtype.
Problem drawn(std::mt19937_64& random) {
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  const auto size = [&](int bits) {
    const int64_t power = int64_t{1} << below(bits), size = power + below(power);
    return below(3) == 0 ? (size + 7) / 8 * 8 : size;
  };
  constexpr const char* LAYOUTS[] = {"nn", "nt", "tn", "tt"};
  constexpr DType MORE[] = {DType::Float32, DType::Float16, DType::BFloat16, DType::Float64};
  const DType dtype = below(4) == 0 ? ALL_DTYPES[below(11)] : MORE[below(4)];
  const char* layout = LAYOUTS[below(4)];
  const int64_t m = size(15), n = size(15), k = size(17);
  Problem p = problem_of(layout, m, n, k, dtype);
  if (below(4) == 0) p.batch = 2 + below(4);
  if (dtype == DType::Float16 || dtype == DType::BFloat16) p.arithmetic = Arithmetic::Tensor;
  constexpr Arithmetic OF_FP32[] = {Arithmetic::Fma, Arithmetic::Tf32, Arithmetic::Fp16x3};
  if (dtype == DType::Float32) p.arithmetic = OF_FP32[below(3)];
  return p;
}

// Of 2,000 drawn problems: each rung's own choice among its ways. Whoever changes a rung's ways or
// constants on purpose writes down the digest that this test prints.
TEST(Plans, OfAnH200StayAsTheyWereFitted) {
  const std::map<Algo, uint64_t> fitted = {{Algo::SharedTile16, 0x191a4a74f3df4b0b},
                                           {Algo::RegisterTile, 0x11aaea6170ab681a},
                                           {Algo::MmaTile, 0xcc83f91107be64ed},
                                           {Algo::Hopper, 0xdc679c56c9042476},
                                           {Algo::Fp16x3, 0x84db7314500f95b9}};
  for (const DeviceInfo& d : {device("h200"), h200_at_hand()}) {
    std::map<Algo, Digest> digests;
    std::mt19937_64 random(18);
    for (int i = 0; i < 2000; ++i) {
      const Problem p = drawn(random);
      for (const auto& [algo, digest] : fitted)
        if (supports(algo, p, d)) digests[algo].add(make_plan(p, d, algo));
    }
    for (const auto& [algo, digest] : fitted)
      EXPECT_EQ(digests[algo].value(), digest)
          << name_of(algo) << std::hex << ": 0x" << digests[algo].value();
  }
}

}  // namespace
}  // namespace tiled::test
