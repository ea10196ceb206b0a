// Plans without regard to which of them is the best: grids, tiles and workspaces.
#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "cuda/engine/mma_tile/tiles.h"
#include "cuda/engine/register_tile/tiles.h"
#include "cuda/lessons/3_register_tile/tiles.h"
#include "cuda/plan/copies.h"
#include "cuda/plan/sums.h"
#include "planned.h"

namespace tiled::test {
namespace {

// A launch knows of a step what the plan says: which operands it copies, and where in the workspace
// it reads and writes. What a step writes is in areas that were given for it, all of them apart.
TEST(Plans, StepsSayWhatTheyDo) {
  std::mt19937_64 random(5);
  int copies = 0, sums = 0, clears = 0;
  for (int i = 0; i < 400; ++i) {
    Problem p = drawn_problem(random);
    if (i % 2 == 0) p.a.alignment = p.b.alignment = static_cast<int32_t>(size_of(p.dtype));
    for (const char* name : {"h200", "a100", "t4"})
      for (Algo algo : ALL_ALGOS) {
        if (!supports(algo, p, device(name))) continue;
        for (const Plan& plan : plans_of(algo, p, device(name))) {
          int copied = 0, products = 0;
          int64_t bytes = 0;
          for (const Step& step : plan) {
            EXPECT_GE(step.grid_x, 1);
            EXPECT_LE(step.grid_x, MAX_GRID_X);
            EXPECT_LE(step.grid_y, MAX_GRID_Y);
            bytes += step.workspace_bytes;
            if (step.work == Work::Product) ++products;
            if (step.work == Work::Clear) {
              ++clears;
              EXPECT_EQ(plan.at(Area::Words) + step.workspace_bytes, plan.workspace_bytes);
            }
            if (step.work == Work::Sums) {
              ++sums;
              EXPECT_EQ(step.key == TRANSPOSED, algo == Algo::AsyncMma && plan.swap_ab);
            }
            if (step.work != Work::Copy) continue;
            ++copies;
            EXPECT_EQ(products, 0);
            EXPECT_EQ(copied & step.key, 0);
            copied |= step.key;
          }
          EXPECT_EQ(bytes, plan.workspace_bytes);
          EXPECT_EQ((copied & OF_P) != 0, plan.copy_p != CopyTo::Nothing);
          EXPECT_EQ((copied & OF_Q) != 0, plan.copy_q != CopyTo::Nothing);
          const Problem read = problem_as_read(p, plan);
          const Sides from = sides_of(read, plan.swap_ab);
          const int64_t of_p = copied & OF_P ? copy_bytes(from.p, p) : 0;
          const int64_t of_q = copied & OF_Q ? copy_bytes(from.q, p) : 0;
          if (copied != 0) {
            EXPECT_EQ(plan.at(Area::Q), copied & OF_Q ? workspace_aligned(of_p) : 0);
            EXPECT_EQ(plan.at(Area::Totals), workspace_aligned(of_p) + workspace_aligned(of_q));
          }
        }
      }
  }
  EXPECT_GT(copies, 100);
  EXPECT_GT(sums, 20);
  EXPECT_GT(clears, 20);
}

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
  expect("t4", "Tile128x128", DType::Float32, Tile128x128::BLOCK_M, Tile128x128::BLOCK_N,
         Tile128x128::THREADS, Tile128x128::SHARED_BYTES);
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
          if (!plan.demand.stream_k) {
            EXPECT_EQ(plan.main_step().grid_x, plan.tiles_m * plan.tiles_n) << name_of(algo);
          }
  const Problem p = tensor_problem("nt", 264, 264, 264);
  for (Algo algo : {Algo::MmaTile, Algo::TmaWgmma, Algo::WarpSpecialized}) {
    const Plan plan = make_plan(p, device("h200"), algo);
    // Bytes: half as many by mma_tile's larger tile.
    const bool is_half = algo == Algo::MmaTile && plan.block_m == 64;
    EXPECT_EQ(plan.block_k * size_of(p.dtype), is_half ? 64 : 128);
    EXPECT_EQ(plan.main_step().grid_x, plan.tiles_m * plan.tiles_n);
    EXPECT_EQ(plan.workspace_bytes, 0);
  }
}

// Without k the result is zeros; without elements there is none, and no element is read.
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
        if (m > 0 && n > 0 && batch > 0) {
          EXPECT_GT(plan.main_step().grid_x, 0) << name_of(algo);
        } else if (is_in({std::begin(CUDA_ALGOS), std::end(CUDA_ALGOS)}, algo)) {
          EXPECT_EQ(plan.main_step().grid_x * plan.main_step().grid_y, 0) << name_of(algo);
        }
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

TEST(Segments, AreOneBelow32768AndEndAtMultiplesOf4096FromThereOn) {
  EXPECT_EQ(segment_count(0), 0);
  for (const int64_t k : {1, 4095, 4096, 4097, 28672, 32767}) {
    EXPECT_EQ(segment_count(k), 1);
    EXPECT_EQ(segment_begin(0), 0);
    EXPECT_EQ(segment_end(0, k), k);
    EXPECT_EQ(segment_steps<64>(k), (k + 63) / 64);
  }
  for (const int64_t k : {int64_t{32768}, int64_t{32769}, int64_t{36864}, int64_t{1} << 40}) {
    EXPECT_EQ(segment_count(k), (k + 4095) / 4096);
    for (const int64_t s : {int64_t{0}, int64_t{1}, segment_count(k) - 2}) {
      EXPECT_EQ(segment_begin(s), s * 4096);
      EXPECT_EQ(segment_end(s, k), s * 4096 + 4096);
    }
    EXPECT_EQ(segment_end(segment_count(k) - 1, k), k);
    EXPECT_EQ(segment_steps<64>(k), 64);
  }
}

}  // namespace
}  // namespace tiled::test
