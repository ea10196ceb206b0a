// The problems that each rung takes on each device, and those that it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

#include "planned.h"

namespace tiled::test {
namespace {

// In the fma arithmetic: 16-bit types too, where that is asked for. fp32 and bytes have more rungs
// from 8.0 on, fp64 where there are Hopper's kernels.
TEST(Supports, EveryRungTakesEveryDtype) {
  for (const char* name : {"h200", "h100", "a100", "t4"})
    for (DType dtype : ALL_DTYPES) {
      const Problem p = problem_of("tn", 33, 65, 17, dtype);
      Algos found = supported_algos(p, device(name));
      const int capability = device(name).capability;
      if ((capability == 90 && dtype == DType::Float64) ||
          (capability >= 80 && (dtype == DType::Float32 || size_of(dtype) == 1)))
        found.erase(std::remove_if(found.begin(), found.end(),
                                   [](Algo algo) { return on_tensor_cores(algo); }),
                    found.end());
      EXPECT_EQ(found, Algos(std::begin(CUDA_ALGOS), std::end(CUDA_ALGOS)))
          << name << ' ' << name_of(dtype);
    }
}

TEST(Supports, NoCpuRungOnAGpu) {
  EXPECT_FALSE(supports(Algo::Blocked, problem_of(8, 8, 8), device("h200")));
}

// 512 threads a block and 16 KiB of shared memory: no 32 x 32 threads, no 128 x 128 tile.
TEST(Supports, TheDevicesLimits) {
  const DeviceInfo g80 = device("g80");
  const Algos found = supported_algos(problem_of(64, 64, 64), g80);
  EXPECT_FALSE(is_in(found, Algo::SharedTile32));
  EXPECT_TRUE(is_in(found, Algo::SharedTile16) && is_in(found, Algo::RegisterTile));
  for (const Plan& plan : plans_of(Algo::RegisterTile, problem_of(4096, 4096, 64), g80))
    EXPECT_EQ(plan.block_m, 64);
  EXPECT_TRUE(supported_algos(problem_of(64, 64, 64, DType::Float64), g80).empty());
  EXPECT_FALSE(supported_algos(problem_of(64, 64, 64, DType::Float64), device("gt200")).empty());
}

// 2^35 rows by 8 are 2^32 tiles: more than a grid has. Wider tiles still can.
TEST(Supports, GridsBelowTwoToThe31) {
  const DeviceInfo d = device("h200");
  const Problem tall = problem_of(int64_t{1} << 35, 1, 1, DType::Int8);
  EXPECT_FALSE(supports(Algo::SharedTile8, tall, d));
  EXPECT_FALSE(supports(Algo::SharedTile16, tall, d));
  EXPECT_TRUE(supports(Algo::SharedTile32, tall, d));
  EXPECT_TRUE(supports(Algo::RegisterTile, tall, d));

  // One tile short of 2^31 is the last that fits.
  const int64_t last = ((int64_t{1} << 31) - 1) * 16;
  EXPECT_TRUE(supports(Algo::SharedTile16, problem_of(last, 16, 1), d));
  EXPECT_FALSE(supports(Algo::SharedTile16, problem_of(last + 1, 16, 1), d));
  EXPECT_EQ(make_plan(problem_of(last, 16, 1), d, Algo::SharedTile16).main_step().grid_x,
            (int64_t{1} << 31) - 1);
}

// Where small tiles are too many, the large one is taken, and the default leaves rungs out.
TEST(Supports, ThePlanFitsTheGrid) {
  const DeviceInfo d = device("h200");
  for (int shift = 20; shift <= 37; ++shift) {
    const Problem p = problem_of((int64_t{1} << shift) - 1, 1, 3, DType::Int8);
    const Plan plan = make_plan(p, d);
    EXPECT_TRUE(supports(plan.algo, p, d)) << shift;
    EXPECT_LE(plan.main_step().grid_x, MAX_GRID_X) << shift;
  }
  // 2^37 rows are 2^31 small tiles, one too many, and 2^30 of the larger ones.
  const Problem tall = problem_of(int64_t{1} << 37, 1, 3, DType::Int8);
  EXPECT_EQ(make_plan(tall, d, Algo::RegisterTile).block_m, 128);
}

// No size overflows: what cannot be launched is refused, by a plan that says so.
TEST(Supports, SizesBeyondEveryGrid) {
  const DeviceInfo d = device("h200");
  Problem p = problem_of(1, 1, 1, DType::Int8);
  p.m = p.n = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(supported_algos(p, d).empty());
  const Plan plan = make_plan(p, d);
  EXPECT_FALSE(supports(plan.algo, p, d));
  EXPECT_EQ(plan.step_count, 0);
}

// ---- tensor cores ---------------------------------------------------------------------------

const Algos EVERY_RUNG = tensor_algos();
const Algos ANY_LAYOUT = tensor_algos(/*any_layout=*/true);

Algos rungs_of(const Problem& p, const char* name = "h200") {
  return supported_algos(p, device(name));
}

TEST(TensorSupports, TheArithmeticDecides) {
  for (DType dtype : TENSOR_DTYPES) {
    Problem p = tensor_problem("nt", 64, 128, 256, dtype);
    EXPECT_EQ(rungs_of(p), tensor_algos(false, dtype)) << name_of(dtype);
    p.arithmetic = Arithmetic::Fma;
    EXPECT_FALSE(is_in(rungs_of(p), Algo::Hopper)) << name_of(dtype);
  }
}

// async_mma and tall from 8.0 on, the others on 9.0 alone.
TEST(TensorSupports, TheComputeCapabilityDecides) {
  const Problem p = tensor_problem("nn", 64, 128, 256);
  EXPECT_EQ(rungs_of(p, "h100"), EVERY_RUNG);
  for (const char* name : {"a100", "a10", "l40s", "rtx3090", "rtx4090", "rtx5090", "b200"})
    EXPECT_EQ(rungs_of(p, name), (Algos{Algo::AsyncMma, Algo::Tall})) << name;
  for (const char* name : {"t4", "k40", "fermi", "g80"})
    EXPECT_TRUE(rungs_of(p, name).empty()) << name;
}

// A build for other architectures leaves Hopper's kernels out: no plan may need one, the rungs of
// the fma arithmetic remain, fp64's included, and no operand is transposed first.
TEST(TensorSupports, NothingWhereTheBuildLeavesThemOut) {
  DeviceInfo d = device("h200");
  leave_out_hopper_kernels(d);
  EXPECT_TRUE(leaves_out_hopper_kernels(d));
  EXPECT_FALSE(leaves_out_hopper_kernels(device("h200")));
  EXPECT_FALSE(leaves_out_hopper_kernels(device("a100")));
  for (const DType dtype : TENSOR_DTYPES)
    EXPECT_TRUE(supported_algos(tensor_problem("nn", 64, 128, 256, dtype), d).empty());
  EXPECT_TRUE(supported_algos(parts_problem("nn", 300, 200, 100), d).empty());
  for (const DType dtype : ALL_DTYPES) {
    const Problem p = problem_of("nt", 4096, 4096, 4096, dtype);
    EXPECT_EQ(supported_algos(p, d), Algos(std::begin(CUDA_ALGOS), std::end(CUDA_ALGOS)));
    for (const Plan& plan : plans_of(Algo::RegisterTile, p, d))
      EXPECT_NE(plan.begin()->work, Work::Copy) << name_of(dtype);
  }
}

// fp16 and bf16 in every layout; tf32 is read where it is contiguous along K.
TEST(TensorSupports, Layouts) {
  for (const std::string layout : {"nn", "nt", "tn", "tt"}) {
    EXPECT_EQ(rungs_of(tensor_problem(layout, 64, 128, 256, DType::Float16)), EVERY_RUNG) << layout;
    EXPECT_EQ(rungs_of(tensor_problem(layout, 64, 128, 256)), EVERY_RUNG) << layout;
    EXPECT_EQ(rungs_of(tensor_problem(layout, 64, 128, 256, DType::Float32)),
              tensor_algos(/*any_layout=*/layout != "nt", DType::Float32))
        << layout;
  }
}

TEST(TensorSupports, WhatTmaCannotRead) {
  const auto misaligned = [](Problem& p) { p.a.alignment = 2; };
  const auto half = [](Problem& p) { p.b.alignment = 8; };
  const auto strided = [](Problem& p) { p.a.row_stride = 1024, p.a.col_stride = 8; };
  const auto expanded = [](Problem& p) { p.b.row_stride = 0; };
  const auto all_expanded = [](Problem& p) { p.a.row_stride = p.a.col_stride = 0; };
  const auto overlapping = [](Problem& p) { p.a.row_stride = p.a.col_stride = 1; };
  EXPECT_EQ(rungs_of(changed("nn", misaligned)), ANY_LAYOUT);
  EXPECT_EQ(rungs_of(changed("nn", half)), ANY_LAYOUT);
  EXPECT_EQ(rungs_of(changed("nn", strided)), ANY_LAYOUT);
  EXPECT_EQ(rungs_of(changed("nn", expanded)), ANY_LAYOUT);
  EXPECT_EQ(rungs_of(changed("nn", all_expanded)), ANY_LAYOUT);
  EXPECT_EQ(rungs_of(changed("nn", overlapping)), ANY_LAYOUT);
  // 4,100 bytes a row: 4 more than a multiple of 16.
  EXPECT_EQ(rungs_of(tensor_problem("nn", 64, 128, 2050)), ANY_LAYOUT);
  EXPECT_EQ(rungs_of(tensor_problem("nn", 64, 128, 2056)), EVERY_RUNG);
}

// Beyond TMA's and the counters' 31 bits rungs with 64-bit indices are left, as far as their grid.
TEST(TensorSupports, HugeSizes) {
  constexpr Algo BY_TMA[] = {Algo::TmaWgmma, Algo::WarpSpecialized, Algo::Hopper, Algo::FewRows};
  const DeviceInfo d = device("h200");
  constexpr int64_t TOO_LARGE = int64_t{1} << 31;
  for (const auto& [m, n, k] : {std::tuple{TOO_LARGE, int64_t{8}, int64_t{8}},
                                {int64_t{8}, TOO_LARGE, int64_t{8}},
                                {int64_t{8}, int64_t{8}, TOO_LARGE}}) {
    const Problem p = tensor_problem("nt", m, n, k);
    for (Algo algo : BY_TMA) EXPECT_FALSE(supports(algo, p, d)) << m << ' ' << n << ' ' << k;
    EXPECT_TRUE(supports(make_plan(p, d).algo, p, d));
    EXPECT_TRUE(hopper_plans(p, d).empty());
  }
  EXPECT_EQ(rungs_of(tensor_problem("nt", TOO_LARGE / 2, 8, 8)), EVERY_RUNG);
  Problem batch = tensor_problem("nt", 8, 8, 8);
  batch.batch = TOO_LARGE;
  for (Algo algo : BY_TMA) EXPECT_FALSE(supports(algo, batch, d));
  EXPECT_TRUE(supports(Algo::MmaTile, batch, d));
  // 2^37 rows are 2^31 tiles of 64, one more than a grid has.
  EXPECT_FALSE(supports(Algo::MmaTile, tensor_problem("nt", int64_t{1} << 37, 8, 8), d));
  const Problem largest = tensor_problem("nt", (int64_t{1} << 37) - 64, 8, 8);
  EXPECT_TRUE(supports(Algo::MmaTile, largest, d));
  int ways = 0;  // of the larger tile alone
  rung_of(Algo::MmaTile)->ways(largest, d, [&](const Way&) { ++ways; });
  EXPECT_EQ(ways, 1);
  Problem endless = tensor_problem("nt", 8, 8, 8);
  endless.m = endless.n = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(supported_algos(endless, d).empty());
}

// int32 sums of bytes run where bytes do.
TEST(Supports, Int32SumsOfBytes) {
  for (const char* name : {"a100", "h200", "t4", "k40"})
    for (const DType dtype : {DType::Int8, DType::UInt8})
      for (const int64_t k : {64, 4096, 40000}) {
        const Problem p = problem_of("nt", 512, 512, k, dtype);
        Problem sums = p;
        sums.epilogue.out_dtype = DType::Int32;
        EXPECT_EQ(supported_algos(sums, device(name)), supported_algos(p, device(name))) << name;
      }
}

}  // namespace
}  // namespace tiled::test
