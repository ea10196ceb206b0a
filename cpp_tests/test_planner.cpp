// Plans without regard to which of them is the best: grids, tiles, workspaces, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "cuda/rungs/3_register_tile/tiles.h"
#include "cuda/rungs/4_mma_tile/tiles.h"
#include "planned.h"

namespace tiled::test {
namespace {

TEST(Way, IsOfOneType) {
  const Way way(RegisterTileWay{});
  EXPECT_TRUE(way.is<RegisterTileWay>());
  EXPECT_FALSE(way.is<Fp64Way>());
  EXPECT_THROW(way.as<Fp64Way>(), std::logic_error);
  EXPECT_THROW(Way().as<RegisterTileWay>(), std::logic_error);
}

TEST(Plan, HasNoMoreStepsThanItHasPlacesFor) {
  Plan plan{};
  for (int i = 0; i < Plan::MOST_STEPS; ++i) plan.add(Step{});
  EXPECT_THROW(plan.add(Step{}), std::length_error);
  EXPECT_EQ(plan.step_count, Plan::MOST_STEPS);
}

TEST(Plan, GridOfSharedTiles) {
  const Problem p = problem_of(100, 33, 50, DType::Float32, /*batch=*/3);
  const Plan plan = make_plan(p, device("h200"), Algo::SharedTile16);
  EXPECT_EQ(plan.algo, Algo::SharedTile16);
  EXPECT_EQ(plan.tiles_m, 7);
  EXPECT_EQ(plan.tiles_n, 3);
  EXPECT_EQ(plan.main_step().grid_x, 21);
  EXPECT_EQ(plan.main_step().grid_y, 3);
  EXPECT_EQ(plan.main_step().threads_x, 16);
  EXPECT_EQ(plan.main_step().threads_y, 16);
}

TEST(Plan, NaiveIsOneElementAThread) {
  const Plan plan = make_plan(problem_of(17, 16, 5), device("h200"), Algo::Naive);
  EXPECT_EQ(plan.tiles_m, 2);
  EXPECT_EQ(plan.tiles_n, 1);
  EXPECT_EQ(plan.main_step().threads_x * plan.main_step().threads_y, 256);
  EXPECT_EQ(plan.main_step().shared_bytes, 0);
}

// Two tiles of WIDTH * WIDTH accumulators: 4 bytes but for fp64, int64 and complex.
TEST(Plan, SharedBytesFollowTheAccumulator) {
  const DeviceInfo d = device("h200");
  for (DType dtype : ALL_DTYPES) {
    const int64_t bytes = dtype == DType::Complex128 ? 16 : size_of(dtype) == 8 ? 8 : 4;
    EXPECT_EQ(accumulator_bytes(dtype), bytes) << name_of(dtype);
    const Problem p = problem_of(64, 64, 64, dtype);
    EXPECT_EQ(make_plan(p, d, Algo::SharedTile8).main_step().shared_bytes, 128 * bytes)
        << name_of(dtype);
    EXPECT_EQ(make_plan(p, d, Algo::SharedTile32).main_step().shared_bytes, 2048 * bytes)
        << name_of(dtype);
  }
}

// fp32 has a kernel of its own where cp.async exists, with its own tiles.
TEST(Plan, RegisterTileFollowsItsTiles) {
  const auto expect = [](const char* name, const char* tile, DType dtype, int block_m, int block_n,
                         int threads, int64_t shared_bytes) {
    const Plan plan =
        plan_of_tile(Algo::RegisterTile, tile, problem_of(4096, 4096, 4096, dtype), device(name));
    EXPECT_EQ(plan.block_m, block_m);
    EXPECT_EQ(plan.block_n, block_n);
    EXPECT_EQ(plan.main_step().threads_x, threads);
    EXPECT_EQ(plan.main_step().threads_y, 1);
    EXPECT_EQ(plan.main_step().shared_bytes, shared_bytes);
  };
  expect("t4", "Tile128x256", DType::Float32, Tile128x256::BLOCK_M, Tile128x256::BLOCK_N,
         Tile128x256::THREADS, Tile128x256::SHARED_BYTES);
  expect("h200", "Tile64x64", DType::Int32, Tile64x64::BLOCK_M, Tile64x64::BLOCK_N,
         Tile64x64::THREADS, Tile64x64::SHARED_BYTES);
  for (const char* name : {"h200", "h100", "a100"})
    expect(name, "AsyncTile128x128", DType::Float32, AsyncTile128x128::BLOCK_M,
           AsyncTile128x128::BLOCK_N, AsyncTile128x128::THREADS, AsyncTile128x128::SHARED_BYTES);
  for (DType dtype : ALL_DTYPES)
    for (const Plan& plan :
         plans_of(Algo::RegisterTile, problem_of(300, 300, 300, dtype), device("a100")))
      EXPECT_EQ(register_of(plan).async, dtype == DType::Float32) << name_of(dtype);
}

// Blocks that all run at once hand over what they have of a tile that another one ends. Not of
// batches, nor of a K of several segments or none, nor where every block has one tile.
TEST(Plan, TilesAreCutInTime) {
  const DeviceInfo d = device("h200");
  const auto cut = [&](Algo algo, int64_t size, int64_t k, DType dtype, int64_t batch = 1) {
    int found = 0;
    for (const Plan& plan : plans_of(algo, problem_of(size, size, k, dtype, batch), d)) {
      const int32_t blocks =
          algo == Algo::RegisterTile ? register_of(plan).blocks : plan.way.as<Fp64Way>().blocks;
      EXPECT_EQ(plan.demand.stream_k, blocks > 0);
      if (blocks == 0) continue;
      ++found;
      const Step& product = plan.main_step();
      EXPECT_EQ((&product)[-1].work, Work::Clear);
      EXPECT_EQ(product.grid_x, blocks);
      EXPECT_EQ(blocks % d.multiprocessors, 0);
      EXPECT_GT(plan.tiles_m * plan.tiles_n, blocks);
      EXPECT_EQ(product.workspace_bytes,
                int64_t{blocks} * plan.block_m * plan.block_n * accumulator_bytes(dtype));
      EXPECT_EQ((&product)[-1].workspace_bytes, (blocks + 1) * 4) << "a ticket and flags";
    }
    return found;
  };
  for (const auto& [algo, dtype] :
       {std::pair{Algo::RegisterTile, DType::Float32}, {Algo::MmaTile, DType::Float64}}) {
    for (const int64_t size : {1536, 2304}) EXPECT_GT(cut(algo, size, size, dtype), 0) << size;
    EXPECT_EQ(cut(algo, 256, 256, dtype), 0);
    EXPECT_EQ(cut(algo, 2304, 40000, dtype), 0);
    EXPECT_EQ(cut(algo, 2304, 2304, dtype, 2), 0);
    EXPECT_EQ(cut(algo, 2304, 0, dtype), 0);
  }
}

// The same chains on tensor cores, where kernels for them exist.
TEST(Plan, Fp64RunsOnTensorCoresOf90) {
  const Problem p = problem_of(4000, 4097, 4096, DType::Float64, 3);
  for (const char* name : {"h200", "h100", "a100", "t4", "k40"}) {
    const bool has = device(name).hopper_kernels;
    EXPECT_EQ(supports(Algo::MmaTile, p, device(name)), has) << name;
    EXPECT_FALSE(supports(Algo::Hopper, p, device(name)));
  }
  const Plan plan = plan_of_tile(Algo::MmaTile, "Fp64Tile128x128", p, device("h200"));
  EXPECT_EQ(plan.block_m, Fp64Tile128x128::BLOCK_M);
  EXPECT_EQ(plan.main_step().threads_x, Fp64Tile128x128::THREADS);
  EXPECT_EQ(plan.main_step().shared_bytes, Fp64Tile128x128::SHARED_BYTES);
  EXPECT_EQ(plan.workspace_bytes, 0);
  EXPECT_EQ(plan.main_step().grid_x, 32 * 33);
  EXPECT_EQ(plan.main_step().grid_y, 3);
}

TEST(Plan, TheNamedRungIsTaken) {
  for (const char* name : {"h200", "a100", "t4", "k40"})
    for (Algo algo : CUDA_ALGOS)
      for (int64_t size : {1, 17, 300, 5000})
        EXPECT_EQ(make_plan(problem_of(size, size, size), device(name), algo).algo, algo)
            << name << ' ' << name_of(algo) << ' ' << size;
  for (DType dtype : TENSOR_DTYPES)
    for (Algo algo : tensor_algos(false, dtype))
      for (int64_t size : {8, 64, 264, 5000}) {
        const Problem p = tensor_problem("nt", size, size, size, dtype);
        ASSERT_TRUE(supports(algo, p, device("h200"))) << name_of(algo);
        EXPECT_EQ(make_plan(p, device("h200"), algo).algo, algo);
      }
}

TEST(Plan, OfUncutTilesHasABlockForEach) {
  for (const char* name : {"h200", "a100", "t4", "k40"})
    for (Algo algo : CUDA_ALGOS)
      for (int64_t size : {1, 17, 300, 5000})
        for (const Plan& plan : plans_of(algo, problem_of(size, size, size), device(name)))
          if (!plan.demand.stream_k)
            EXPECT_EQ(plan.main_step().grid_x, plan.tiles_m * plan.tiles_n) << name_of(algo);
  const Problem p = tensor_problem("nt", 264, 264, 264);
  for (Algo algo : {Algo::MmaTile, Algo::TmaWgmma, Algo::WarpSpecialized}) {
    const Plan plan = make_plan(p, device("h200"), algo);
    EXPECT_EQ(plan.block_k * size_of(p.dtype), algo == Algo::MmaTile ? 64 : 128);  // bytes
    EXPECT_EQ(plan.main_step().grid_x, plan.tiles_m * plan.tiles_n);
    EXPECT_EQ(plan.workspace_bytes, 0);
  }
}

// No k has a result, zeros; no elements have none, and nobody asks for an element of them.
TEST(Plan, EmptyProblems) {
  const DeviceInfo d = device("h200");
  for (const auto& [m, n, k, batch] : {std::tuple{5, 7, 0, 1},
                                       {500, 700, 0, 1},
                                       {0, 5, 7, 1},
                                       {5, 0, 7, 1},
                                       {0, 0, 0, 1},
                                       {64, 128, 256, 0}}) {
    std::vector<Problem> problems;
    for (DType dtype : ALL_DTYPES) problems.push_back(problem_of(m, n, k, dtype, batch));
    for (DType dtype : TENSOR_DTYPES) {
      problems.push_back(tensor_problem("nn", m, n, k, dtype));
      problems.back().batch = batch;
    }
    for (const Problem& p : problems) {
      EXPECT_TRUE(supports(make_plan(p, d).algo, p, d))
          << name_of(p.dtype) << ' ' << m << ' ' << n << ' ' << k << ' ' << batch;
      for (Algo algo : supported_algos(p, d)) {
        const Plan plan = make_plan(p, d, algo);
        EXPECT_EQ(plan.algo, algo);
        EXPECT_GE(plan.workspace_bytes, 0);
        if (m > 0 && n > 0 && batch > 0)
          EXPECT_GT(plan.main_step().grid_x, 0) << name_of(algo);
        else if (is_in({std::begin(CUDA_ALGOS), std::end(CUDA_ALGOS)}, algo))
          EXPECT_EQ(plan.main_step().grid_x * plan.main_step().grid_y, 0) << name_of(algo);
      }
    }
  }
}

TEST(Plan, BatchesBeyondTheGridAreWalked) {
  for (const int64_t batch : {int64_t{65535}, int64_t{65536}, int64_t{1} << 40})
    for (const Algo algo : CUDA_ALGOS)
      for (const Plan& plan :
           plans_of(algo, problem_of(8, 8, 8, DType::Float32, batch), device("h200")))
        EXPECT_EQ(plan.main_step().grid_y, 65535) << name_of(algo);
}

// ---- what is supported ----------------------------------------------------------------------

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
    EXPECT_EQ(register_of(plan).tile, TileSize::Small);
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

// fp16 and bf16 in every layout; tf32 is read where it lies along K.
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
  EXPECT_TRUE(supports(Algo::MmaTile, tensor_problem("nt", (int64_t{1} << 37) - 64, 8, 8), d));
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

TEST(Segments, AreOneBelow32768AndEndAtMultiplesOf4096FromThereOn) {
  EXPECT_EQ(segment_count(0), 0);
  for (const int64_t k : {1, 4095, 4096, 4097, 28672, 32767}) {
    EXPECT_EQ(segment_count(k), 1);
    EXPECT_EQ(segment_begin(0), 0);
    EXPECT_EQ(segment_end(0, k), k);
    EXPECT_EQ(segment_steps(k, 64), (k + 63) / 64);
  }
  for (const int64_t k : {int64_t{32768}, int64_t{32769}, int64_t{36864}, int64_t{1} << 40}) {
    EXPECT_EQ(segment_count(k), (k + 4095) / 4096);
    for (const int64_t s : {int64_t{0}, int64_t{1}, segment_count(k) - 2}) {
      EXPECT_EQ(segment_begin(s), s * 4096);
      EXPECT_EQ(segment_end(s, k), s * 4096 + 4096);
    }
    EXPECT_EQ(segment_end(segment_count(k) - 1, k), k);
    EXPECT_EQ(segment_steps(k, 64), 64);
  }
}

}  // namespace
}  // namespace tiled::test
