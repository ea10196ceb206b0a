// Named devices, occupancy and roofline, against data sheets and inputs worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "core/arithmetic.h"
#include "cuda/plan/architectures.h"
#include "cuda/plan/build.h"
#include "planned.h"

namespace tiled::test {
namespace {

// 128 registers are 4,096 for a warp, 4 warps in each of four partitions of 16,384: 16 warps, two
// blocks of 8. 16,896 + 1,024 bytes, 13 of which fit in 228 KiB (13 * 17,920 = 232,960 of 233,472).
TEST(Occupancy, RegisterTileOnH200) {
  const Occupancy o = occupancy(device("h200"), {256, 128, 16896});
  EXPECT_EQ(o.by_threads, 8);
  EXPECT_EQ(o.by_blocks, 32);
  EXPECT_EQ(o.by_registers, 2);
  EXPECT_EQ(o.by_shared, 13);
  EXPECT_EQ(o.blocks_per_sm, 2);
  EXPECT_EQ(o.limit, "registers");
  EXPECT_EQ(o.fraction, 0.25);
}

// 129 registers: 4,128 rounds up to 4,352 for a warp, 3 warps a partition, 12 in all: one block.
TEST(Occupancy, RegistersAreRoundedUpForEachWarpAndStayInTheirPartition) {
  EXPECT_EQ(occupancy(device("h200"), {256, 129, 0}).by_registers, 1);
  // 33 registers: 1,056 rounds up to 1,280; 12 warps a partition, 48 in all, 6 blocks of 8.
  EXPECT_EQ(occupancy(device("a100"), {256, 33, 0}).by_registers, 6);
  // 72 registers: 2,304; 7 warps a partition (not 28.4 / 4), 28 in all: 28 blocks of one warp.
  EXPECT_EQ(occupancy(device("a100"), {32, 72, 0}).by_registers, 28);
}

// 40 threads are two warps: 64 / 2 = 32 blocks of them on H200, not 2,048 / 40 = 51.
TEST(Occupancy, ThreadsAreGivenOutByWarps) {
  EXPECT_EQ(occupancy(device("h200"), {40, 0, 0}).by_threads, 32);
  EXPECT_EQ(occupancy(device("h200"), {96, 0, 0}).by_threads, 21);  // 64 / 3
}

// From 8.0 on the system takes 1 KiB of each block's shared memory: 164 / (40 + 1) = 4 exactly.
TEST(Occupancy, SharedMemoryReservedForTheSystem) {
  EXPECT_EQ(occupancy(device("a100"), {128, 0, 40 * KIB}).by_shared, 4);
  EXPECT_EQ(occupancy(device("a100"), {128, 0, 40 * KIB + 1}).by_shared, 3);
  EXPECT_EQ(occupancy(device("a100"), {128, 0, 0}).by_shared, 164);
  EXPECT_EQ(occupancy(device("t4"), {128, 0, 0}).by_shared, -1);
}

// 65,536 / 640 = 102 blocks in units of 128 bytes; Turing's units of 256 make them 768: 85.
TEST(Occupancy, SharedMemoryIsRoundedUp) {
  DeviceInfo t4 = device("t4");
  EXPECT_EQ(occupancy(t4, {32, 0, 600}).by_shared, 85);
  t4.shared_granularity = 128;
  EXPECT_EQ(occupancy(t4, {32, 0, 600}).by_shared, 102);
}

TEST(Occupancy, ABlockThatDoesNotFitIsNone) {
  const Occupancy wide = occupancy(device("g80"), {1024, 0, 8 * KIB});  // 512 threads at most
  EXPECT_EQ(wide.blocks_per_sm, 0);
  EXPECT_EQ(wide.limit, "threads");
  const Occupancy deep = occupancy(device("t4"), {32, 0, 64 * KIB + 1});
  EXPECT_EQ(deep.blocks_per_sm, 0);
  EXPECT_EQ(deep.limit, "shared memory");
  // 255 registers: 8,160 rounds up to 8,192 for a warp; 8 warps in all, a block wants 32.
  EXPECT_EQ(occupancy(device("h200"), {1024, 255, 0}).blocks_per_sm, 0);
}

// More of any resource never allows more blocks.
TEST(Occupancy, FallsMonotonically) {
  for (const std::string& name : device_names()) {
    const DeviceInfo d = device(name.c_str());
    for (int registers = 16; registers < 255; ++registers)
      EXPECT_GE(occupancy(d, {128, registers, 1024}).blocks_per_sm,
                occupancy(d, {128, registers + 1, 1024}).blocks_per_sm)
          << name << ", " << registers << " registers";
    for (int64_t bytes = 0; bytes < 50 * KIB; bytes += 100)
      EXPECT_GE(occupancy(d, {128, 0, bytes}).blocks_per_sm,
                occupancy(d, {128, 0, bytes + 100}).blocks_per_sm)
          << name << ", " << bytes << " bytes";
    for (int threads = 1; threads < 1100; ++threads)
      EXPECT_GE(occupancy(d, {threads, 0, 1024}).blocks_per_sm,
                occupancy(d, {threads + 1, 0, 1024}).blocks_per_sm)
          << name << ", " << threads << " threads";
  }
}

TEST(Roofline, NothingToDo) {
  const DeviceInfo d = device("h200");
  EXPECT_EQ(roofline(d, 0, 0, d.fp32_flops).seconds_bound, 0);
  EXPECT_EQ(roofline(d, 4.8e12, 0, d.fp32_flops).seconds_bound, 1);
  EXPECT_EQ(roofline(d, 4.8e12, 0, d.fp32_flops).flops_bound, 0);
}

// ---- devices --------------------------------------------------------------------------------

TEST(Devices, AllAreNamed) {
  const std::vector<std::string> names = device_names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()),
            (std::set<std::string>{"h200", "h100", "h100-pcie", "h20", "gh200", "a100", "a10",
                                   "l40s", "rtx3090", "rtx4090", "rtx5090", "b200", "t4", "g80",
                                   "gt200", "fermi", "k40"}));
  EXPECT_FALSE(named_device("h2000"));
  EXPECT_FALSE(named_device(""));
}

// Peaks as the vendor states them, to the digits that it states.
TEST(Devices, PeaksOfTheDataSheets) {
  const auto tera = [](double flops, double unit) {
    return std::round(flops / 1e12 / unit) * unit;
  };
  EXPECT_DOUBLE_EQ(tera(device("h200").fp32_flops, 1), 67);
  EXPECT_DOUBLE_EQ(tera(device("h200").fp64_flops, 0.5), 33.5);
  EXPECT_DOUBLE_EQ(tera(device("h100").fp32_flops, 1), 67);
  EXPECT_DOUBLE_EQ(tera(device("gh200").fp32_flops, 1), 67);
  EXPECT_DOUBLE_EQ(tera(device("h100-pcie").fp32_flops, 1), 51);
  EXPECT_DOUBLE_EQ(tera(device("h100-pcie").fp64_flops, 1), 26);
  EXPECT_DOUBLE_EQ(tera(device("h20").fp64_flops, 1), 1);
  EXPECT_DOUBLE_EQ(tera(device("h20").fp64_tensor_flops, 1), 1);
  EXPECT_NEAR(device("a100").fp32_flops, 19.5e12, 0.05e12);
  EXPECT_NEAR(device("a100").fp64_flops, 9.7e12, 0.05e12);
  EXPECT_NEAR(device("a10").fp32_flops, 31.2e12, 0.05e12);
  EXPECT_NEAR(device("l40s").fp32_flops, 91.6e12, 0.05e12);
  EXPECT_NEAR(device("rtx3090").fp32_flops, 35.6e12, 0.05e12);
  EXPECT_NEAR(device("rtx4090").fp32_flops, 82.6e12, 0.05e12);
  EXPECT_NEAR(device("rtx5090").fp32_flops, 104.8e12, 0.05e12);
  EXPECT_NEAR(device("b200").fp32_flops, 75e12, 0.05e12);
  EXPECT_NEAR(device("t4").fp32_flops, 8.1e12, 0.05e12);
  // 16 bits with fp32 sums on tensor cores.
  EXPECT_NEAR(device("a100").tensor_flops, 312e12, 0.5e12);
  EXPECT_NEAR(device("a10").tensor_flops, 125e12, 0.5e12);
  EXPECT_NEAR(device("l40s").tensor_flops, 362e12, 5e12);  // at 2.49 GHz in its data sheet
  EXPECT_NEAR(device("rtx3090").tensor_flops, 71e12, 0.5e12);
  EXPECT_NEAR(device("rtx4090").tensor_flops, 165.2e12, 0.5e12);
  EXPECT_NEAR(device("rtx5090").tensor_flops, 209.5e12, 0.5e12);
  EXPECT_NEAR(device("k40").fp32_flops, 4.29e12, 0.005e12);
  EXPECT_NEAR(device("fermi").fp32_flops, 1.03e12, 0.005e12);
  EXPECT_NEAR(device("fermi").fp64_flops, 515e9, 0.5e9);
  EXPECT_NEAR(device("gt200").fp64_flops, 78e9, 0.5e9);
  EXPECT_EQ(device("g80").fp64_flops, 0);
}

TEST(Devices, LimitsMakeSense) {
  for (const std::string& name : device_names()) {
    const DeviceInfo d = device(name.c_str());
    EXPECT_FALSE(d.name.empty()) << name;
    EXPECT_GT(d.multiprocessors, 0) << name;
    EXPECT_GE(d.threads_per_sm, d.threads_per_block) << name;
    EXPECT_EQ(d.threads_per_sm % WARP_SIZE, 0) << name;
    EXPECT_EQ(d.shared_bytes_per_sm - d.shared_bytes_reserved, d.shared_bytes_per_block) << name;
    EXPECT_EQ(d.shared_bytes_per_sm % d.shared_granularity, 0) << name;
    EXPECT_GT(d.fp32_flops, d.fp64_flops) << name;
    EXPECT_GT(d.fp32_flops, d.memory_bandwidth) << name;
    EXPECT_GE(d.fp32_flops, d.int32_ops) << name;
  }
}

TEST(Devices, ArchitectureOfACapability) {
  DeviceInfo ada{};
  ada.capability = 89;  // as 8.6: 128 lanes
  ada.multiprocessors = 10;
  set_architecture(ada, 1e9);
  EXPECT_DOUBLE_EQ(ada.fp32_flops, 10 * 128 * 2e9);
  EXPECT_DOUBLE_EQ(ada.fp64_flops, 10 * 2 * 2e9);
  EXPECT_EQ(ada.register_granularity, 256);
  DeviceInfo later{};
  later.capability = 999;
  later.multiprocessors = 1;
  set_architecture(later, 1e9);
  EXPECT_GT(later.fp32_flops, 0);
}

// ---- generations ----------------------------------------------------------------------------

constexpr bool ascending() {
  for (size_t i = 1; i < std::size(GENERATIONS); ++i)
    if (GENERATIONS[i - 1].capability >= GENERATIONS[i].capability) return false;
  return true;
}
static_assert(ascending());

TEST(Generations, EndWhereTheNextBegins) {
  EXPECT_EQ(generation_of(0).name, "older");
  EXPECT_EQ(generation_of(72).name, "older");
  EXPECT_EQ(generation_of(75).name, "Turing");
  EXPECT_EQ(generation_of(87).name, "Ampere");
  EXPECT_EQ(generation_of(89).name, "Ada");
  EXPECT_EQ(generation_of(90).name, "Hopper");
  for (int capability : {100, 103, 120, 999})
    EXPECT_EQ(generation_of(capability).name, "Blackwell") << capability;
}

// No rung takes a type that the table denies, and some rung takes each that it has, at a rate.
TEST(Generations, TheRungsAreAsTheTableSays) {
  for (const std::string& name : device_names()) {
    const DeviceInfo d = device(name.c_str());
    const Kernels kernels = generation_of(d.capability).kernels;
    EXPECT_EQ(d.hopper_kernels, kernels.hopper) << name;
    const Problem fp16 = tensor_problem("nn", 64, 128, 256, DType::Float16);
    const Problem bf16 = tensor_problem("nn", 64, 128, 256);
    const Problem tf32 = tensor_problem("nn", 64, 128, 256, DType::Float32);
    for (const Problem& p : {fp16, bf16, tf32, parts_problem("nn", 64, 128, 256)}) {
      const bool has = computes(kernels, p.arithmetic, p.dtype);
      EXPECT_NE(supported_algos(p, d).empty(), has) << name;
      if (has) EXPECT_GT(peak_flops(d, p.dtype, p.arithmetic), 0) << name;
    }
    EXPECT_TRUE(computes(kernels, Arithmetic::Fma, DType::Float64));
    EXPECT_FALSE(computes(kernels, Arithmetic::Cpu16, DType::BFloat16));
  }
}

// Some chips of a capability have fewer units than it has, which only their name tells.
TEST(Devices, ChipsAreKnownByTheirNames) {
  const auto chip = [](const char* name) {
    DeviceInfo d{};
    d.name = name;
    d.capability = 90;
    d.multiprocessors = 78;
    set_architecture(d, 1.98e9);
    return d;
  };
  const DeviceInfo h20 = chip("NVIDIA H20"), h200 = chip("NVIDIA H200"), other = chip("NVIDIA H9");
  EXPECT_EQ(h200.tensor_flops, 4 * h20.tensor_flops);
  EXPECT_EQ(h200.fp64_flops, 16 * h20.fp64_flops);
  EXPECT_EQ(h200.fp32_flops, h20.fp32_flops);
  EXPECT_EQ(other.tensor_flops, h200.tensor_flops);
}

TEST(Devices, PeakOfEachDtype) {
  const DeviceInfo d = device("h200");
  EXPECT_EQ(peak_flops(d, DType::Float16), d.fp32_flops);  // chains are fp32
  EXPECT_EQ(peak_flops(d, DType::Complex64), d.fp32_flops);
  EXPECT_EQ(peak_flops(d, DType::Float64), 2 * d.fp64_flops);  // chains on tensor cores
  EXPECT_EQ(peak_flops(d, DType::Complex128), d.fp64_flops);
  EXPECT_EQ(peak_flops(device("a100"), DType::Float64), device("a100").fp64_flops);
  EXPECT_EQ(peak_flops(d, DType::Int32), d.fp32_flops / 2);  // 64 lanes of 128
  EXPECT_EQ(peak_flops(d, DType::Int64), d.int32_ops / 3);
}

// 8-bit integers on tensor cores, as the data sheets and white papers state them: twice the 16-bit
// rate, and four times that of GeForce cards, which is halved where sums are fp32.
TEST(Devices, PeakOfBytes) {
  const auto tera = [](const char* name) { return peak_flops(device(name), DType::Int8) / 1e12; };
  EXPECT_NEAR(tera("a100"), 624, 1);
  EXPECT_NEAR(tera("a10"), 250, 1);
  EXPECT_NEAR(tera("rtx3090"), 284, 1);
  EXPECT_NEAR(tera("rtx4090"), 660.6, 1);
  EXPECT_NEAR(tera("rtx5090"), 838, 1);
  EXPECT_NEAR(tera("l40s"), 733, 1);
  EXPECT_EQ(tera("h20") * 1e12, 2 * device("h20").tensor_flops);
  EXPECT_EQ(tera("t4") * 1e12, device("t4").int32_ops);  // no kernel here
  DeviceInfo without = device("h200");
  EXPECT_EQ(peak_flops(without, DType::UInt8), 2 * without.tensor_flops);
  without.tensor_flops = 0;
  EXPECT_EQ(peak_flops(without, DType::UInt8), without.int32_ops);
}

// 16 times the fp32 rate for 16-bit inputs, 8 times for tf32: the ratios of the data sheet, 989.4,
// 494.7 and 66.9 TF/s, but for the lower clock that it has tensor cores run at.
TEST(Devices, PeakOfEachArithmetic) {
  for (const char* name : {"h200", "h100", "h100-pcie", "gh200", "h20"}) {
    const DeviceInfo d = device(name);
    // H20: 148 TF/s by its data sheet, at 1.85 GHz.
    EXPECT_DOUBLE_EQ(d.tensor_flops, (d.name == "NVIDIA H20" ? 4 : 16) * d.fp32_flops) << name;
    for (DType dtype : {DType::Float16, DType::BFloat16})
      EXPECT_EQ(peak_flops(d, dtype, Arithmetic::Tensor), d.tensor_flops) << name;
    EXPECT_EQ(peak_flops(d, DType::Float32, Arithmetic::Tf32), d.tensor_flops / 2) << name;
  }
  EXPECT_NEAR(device("t4").tensor_flops, 65e12, 0.2e12);  // of fp16
  for (const std::string& name : device_names()) {
    const DeviceInfo d = device(name.c_str());
    for (DType dtype : ALL_DTYPES)
      EXPECT_EQ(peak_flops(d, dtype, Arithmetic::Fma), peak_flops(d, dtype)) << name;
    if (d.capability < 75) {
      EXPECT_EQ(d.tensor_flops, 0) << name << ": no kernel uses them";
    }
    if (d.capability != 90) {
      EXPECT_EQ(d.fp64_tensor_flops, 0) << name;
    }
  }
}

TEST(Architectures, SayWhichDevicesTheyServe) {
  static_assert(runs_on("7.5 8.0 9.0+PTX", 75) && runs_on("7.5 8.0 9.0+PTX", 90));
  EXPECT_TRUE(runs_on("7.5 8.0", 86));  // machine code of the same major version
  EXPECT_FALSE(runs_on("8.6", 80));
  EXPECT_FALSE(runs_on("7.5 8.0", 90));  // and of no other
  EXPECT_FALSE(runs_on("7.5 8.0", 100));
  EXPECT_TRUE(runs_on("7.5+PTX", 90));  // what is newer than PTX compiles it
  EXPECT_TRUE(runs_on("8.0+PTX 12.0", 103));
  EXPECT_FALSE(runs_on("9.0+PTX", 89));
  EXPECT_TRUE(runs_on("10.0 12.0", 121));
  EXPECT_FALSE(runs_on("12.0", 103));
  EXPECT_FALSE(runs_on("", 90));
}

// ---- builds -----------------------------------------------------------------------------------

TEST(Builds, LeaveTheKernelsThatTheyHave) {
  const DeviceInfo h200 = device("h200"), a10 = device("a10"), t4 = device("t4");
  // The whole library.
  const Build whole = {"8.0 9.0+PTX", "7.5", true};
  EXPECT_TRUE(as_built(h200, whole).hopper_kernels);
  for (const DeviceInfo& d : {h200, a10, t4, device("b200")})
    EXPECT_EQ(as_built(d, whole).tensor_flops, d.tensor_flops) << d.name;
  // One for an A10 alone has what an A10 runs.
  const Build ampere = {"8.6", "", false};
  EXPECT_EQ(as_built(a10, ampere).tensor_flops, a10.tensor_flops);
  EXPECT_EQ(as_built(device("a100"), ampere).tensor_flops, 0);  // 8.0 is older
  // PTX serves newer devices with mma.sync; Hopper's kernels are left out.
  const DeviceInfo by_ptx = as_built(h200, {"8.0+PTX", "", false});
  EXPECT_TRUE(leaves_out_hopper_kernels(by_ptx));
  EXPECT_EQ(by_ptx.tensor_flops, h200.tensor_flops);
  EXPECT_EQ(by_ptx.fp64_tensor_flops, 0);
  EXPECT_EQ(supported_algos(tensor_problem("nn", 64, 64, 64), by_ptx),
            (Algos{Algo::AsyncMma, Algo::Tall}));
  EXPECT_EQ(as_built(t4, ampere).tensor_flops, 0);
  // PTX of before does not.
  const DeviceInfo by_old = as_built(h200, {"", "7.5+PTX", false});
  EXPECT_EQ(by_old.tensor_flops, 0);
  EXPECT_TRUE(supported_algos(tensor_problem("nn", 64, 64, 64), by_old).empty());
}

TEST(Builds, PlanAsAnotherDeviceWhereItsPlansCanRun) {
  std::string refusal;
  const DeviceInfo h200 = device("h200");
  const Build mma = {"8.0+PTX", "", false}, by_8 = {"", "9.0", false};
  const DeviceInfo left = as_built(h200, mma), old = as_built(h200, by_8);
  for (const char* name : {"a100", "a10", "l40s", "rtx3090", "rtx4090", "rtx5090", "b200", "k40"}) {
    const auto planned = planned_as(name, left, mma, refusal);
    ASSERT_TRUE(planned) << name << ": " << refusal;
    EXPECT_EQ(planned->shared_bytes_per_block, device(name).shared_bytes_per_block);
    EXPECT_EQ(planned->name, device(name).name + " (on NVIDIA H200)");
    const Problem p = tensor_problem("nt", 4096, 4096, 4096);
    const Plan plan = make_plan(p, *planned), own = make_plan(p, device(name));
    EXPECT_EQ(plan.algo, own.algo) << name;
    EXPECT_EQ(plan.block_m, own.block_m) << name;
    if (own.step_count == 0) continue;  // no tensor cores
    EXPECT_EQ(plan.main_step().shared_bytes, own.main_step().shared_bytes) << name;
  }
  EXPECT_TRUE(planned_as("h100", h200, {"9.0", "", true}, refusal));
  EXPECT_FALSE(planned_as("h200", left, mma, refusal));
  EXPECT_NE(refusal.find("kernels that this build does not have for NVIDIA H200"),
            std::string::npos);
  EXPECT_FALSE(planned_as("a100", old, by_8, refusal));
  EXPECT_TRUE(planned_as("t4", old, by_8, refusal));
  EXPECT_FALSE(planned_as("t4", left, mma, refusal));
  EXPECT_FALSE(planned_as("b200", device("a10"), {"8.0 10.0", "", false}, refusal));
  EXPECT_NE(refusal.find("limits"), std::string::npos);
  EXPECT_FALSE(planned_as("h2000", h200, mma, refusal));
  EXPECT_EQ(refusal, "there is no device of this name");
}

}  // namespace
}  // namespace tiled::test
