// What the planner chooses: grids, tiles, vectors, and what it refuses.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "cuda/tiles.h"
#include "planned.h"

namespace tiled::test {
namespace {

TEST(Plan, GridOfSharedTiles) {
  const Problem p = problem_of(100, 33, 50, DType::Float32, /*batch=*/3);
  const Plan plan = make_plan(p, device("h200"), Algo::SharedTile16);
  EXPECT_EQ(plan.algo, Algo::SharedTile16);
  EXPECT_EQ(plan.tiles_m, 7);
  EXPECT_EQ(plan.tiles_n, 3);
  EXPECT_EQ(plan.grid_x, 21);
  EXPECT_EQ(plan.grid_y, 3);
  EXPECT_EQ(plan.threads_x, 16);
  EXPECT_EQ(plan.threads_y, 16);
}

TEST(Plan, NaiveIsOneElementAThread) {
  const Plan plan = make_plan(problem_of(17, 16, 5), device("h200"), Algo::Naive);
  EXPECT_EQ(plan.tiles_m, 2);
  EXPECT_EQ(plan.tiles_n, 1);
  EXPECT_EQ(plan.threads_x * plan.threads_y, 256);
  EXPECT_EQ(plan.shared_bytes, 0);
}

// Two tiles of WIDTH * WIDTH accumulators: 4 bytes but for fp64, int64 and complex.
TEST(Plan, SharedBytesFollowTheAccumulator) {
  const DeviceInfo d = device("h200");
  for (DType dtype : ALL_DTYPES) {
    const int64_t bytes = dtype == DType::Complex128 ? 16 : size_of(dtype) == 8 ? 8 : 4;
    EXPECT_EQ(accumulator_bytes(dtype), bytes) << name_of(dtype);
    const Problem p = problem_of(64, 64, 64, dtype);
    EXPECT_EQ(make_plan(p, d, Algo::SharedTile8).shared_bytes, 128 * bytes) << name_of(dtype);
    EXPECT_EQ(make_plan(p, d, Algo::SharedTile32).shared_bytes, 2048 * bytes) << name_of(dtype);
  }
}

TEST(Plan, RegisterTileTakesItsTileByName) {
  const Plan plan = make_plan(problem_of(4096, 4096, 4096), device("h200"), Algo::RegisterTile);
  EXPECT_EQ(plan.tile, TileSize::Large);
  EXPECT_EQ(plan.block_m, Tile128x256::BLOCK_M);
  EXPECT_EQ(plan.block_n, Tile128x256::BLOCK_N);
  EXPECT_EQ(plan.threads_x, Tile128x256::THREADS);
  EXPECT_EQ(plan.threads_y, 1);
  EXPECT_EQ(plan.shared_bytes, Tile128x256::SHARED_BYTES);
}

// 768 x 768 is 36 tiles of 128 x 128 for 132 multiprocessors, but 144 small ones.
TEST(Plan, SmallTilesWhereLargeOnesLeaveMultiprocessorsIdle) {
  const Plan plan = make_plan(problem_of(768, 768, 4096), device("h200"), Algo::RegisterTile);
  EXPECT_EQ(plan.tile, TileSize::Small);
  EXPECT_EQ(plan.block_m, Tile64x64::BLOCK_M);
}

TEST(Plan, DefaultIsRegisterTileForLargeAndSharedTileForSmall) {
  const DeviceInfo d = device("h200");
  for (DType dtype : ALL_DTYPES)
    EXPECT_EQ(make_plan(problem_of(4096, 4096, 4096, dtype), d).algo, Algo::RegisterTile)
        << name_of(dtype);
  const Plan small = make_plan(problem_of(16, 16, 64), d);
  EXPECT_TRUE(small.algo == Algo::SharedTile8 || small.algo == Algo::SharedTile16 ||
              small.algo == Algo::SharedTile32)
      << name_of(small.algo);
}

// The same problem many times over fills the device as one large problem does.
TEST(Plan, ABatchCountsAsBlocks) {
  const DeviceInfo d = device("h200");
  EXPECT_NE(make_plan(problem_of(128, 128, 512), d).algo, Algo::RegisterTile);
  EXPECT_EQ(make_plan(problem_of(128, 128, 512, DType::Float32, 10000), d).algo,
            Algo::RegisterTile);
}

TEST(Plan, TheNamedRungIsTaken) {
  for (const char* name : {"h200", "a100", "t4", "k40"})
    for (Algo algo : CUDA_ALGOS)
      for (int64_t size : {1, 17, 300, 5000}) {
        const Plan plan = make_plan(problem_of(size, size, size), device(name), algo);
        EXPECT_EQ(plan.algo, algo) << name << ' ' << name_of(algo) << ' ' << size;
        EXPECT_GE(plan.tiles_m * plan.block_m, size);
        EXPECT_GE(plan.tiles_n * plan.block_n, size);
        EXPECT_EQ(plan.grid_x, plan.tiles_m * plan.tiles_n);
      }
}

TEST(Plan, EmptyProblems) {
  const DeviceInfo d = device("h200");
  EXPECT_EQ(make_plan(problem_of(0, 5, 7), d).grid_x, 0);
  EXPECT_EQ(make_plan(problem_of(5, 0, 7), d).grid_x, 0);
  EXPECT_EQ(make_plan(problem_of(5, 5, 7, DType::Float32, 0), d).grid_y, 0);
  // No k still has a result: zeros.
  EXPECT_GE(make_plan(problem_of(5, 5, 0), d).grid_x, 1);
}

TEST(Plan, BatchesBeyondTheGridAreWalked) {
  const DeviceInfo d = device("h200");
  EXPECT_EQ(make_plan(problem_of(8, 8, 8, DType::Float32, 65535), d).grid_y, 65535);
  EXPECT_EQ(make_plan(problem_of(8, 8, 8, DType::Float32, 65536), d).grid_y, 65535);
  EXPECT_EQ(make_plan(problem_of(8, 8, 8, DType::Float32, int64_t{1} << 40), d).grid_y, 65535);
}

// ---- vectors --------------------------------------------------------------------------------

Access access_a(const Problem& p) {
  return make_plan(p, device("h200"), Algo::RegisterTile).access_a;
}
Access access_b(const Problem& p) {
  return make_plan(p, device("h200"), Algo::RegisterTile).access_b;
}

TEST(Access, VectorsFollowTheLayout) {
  for (DType dtype : {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16})
    for (const std::string layout : {"nn", "nt", "tn", "tt"}) {
      const Problem p = problem_of(layout, 64, 96, 128, dtype);
      EXPECT_EQ(access_a(p), layout[0] == 'n' ? Access::AlongK : Access::AlongMN) << layout;
      EXPECT_EQ(access_b(p), layout[1] == 'n' ? Access::AlongMN : Access::AlongK) << layout;
    }
}

TEST(Access, OtherDtypesHaveNoVectors) {
  for (DType dtype : {DType::Complex64, DType::Complex128, DType::Int8, DType::Int16, DType::Int32,
                      DType::Int64, DType::UInt8}) {
    EXPECT_EQ(access_a(problem_of("nn", 64, 64, 64, dtype)), Access::Elements) << name_of(dtype);
    EXPECT_EQ(access_b(problem_of("nn", 64, 64, 64, dtype)), Access::Elements) << name_of(dtype);
  }
}

// A row of 130 fp32 is 520 bytes, 8 short of a multiple of 16; both operands fall back together.
TEST(Access, BothOperandsOrNeither) {
  const Problem p = problem_of("nn", 64, 130, 128, DType::Float32);
  EXPECT_EQ(p.b.alignment, 8);
  EXPECT_EQ(access_a(p), Access::Elements);
  EXPECT_EQ(access_b(p), Access::Elements);
  // Two bytes an element: rows of 132 are 264 bytes, and 8 bytes are enough.
  EXPECT_EQ(access_b(problem_of("nn", 64, 132, 128, DType::Float16)), Access::AlongMN);
  EXPECT_EQ(access_b(problem_of("nn", 64, 130, 128, DType::Float16)), Access::Elements);
  // Rows of odd length in fp64 are at 8 bytes.
  EXPECT_EQ(access_b(problem_of("nn", 64, 129, 128, DType::Float64)), Access::Elements);
  EXPECT_EQ(access_b(problem_of("nn", 64, 130, 128, DType::Float64)), Access::AlongMN);
}

TEST(Access, MisalignedBase) {
  Problem p = problem_of("nn", 64, 64, 64, DType::Float32);
  p.a.alignment = 4;
  EXPECT_EQ(access_a(p), Access::Elements);
  EXPECT_EQ(access_b(p), Access::Elements);
}

TEST(Access, StridesThatHaveNoVectors) {
  Problem p = problem_of("nn", 64, 64, 64, DType::Float32);
  p.a.row_stride = 128, p.a.col_stride = 2;
  EXPECT_EQ(access_a(p), Access::Elements);
  p.a.row_stride = 0, p.a.col_stride = 0;  // one number, expanded
  EXPECT_EQ(access_a(p), Access::Elements);
  p.a.row_stride = 0, p.a.col_stride = 1;  // one row, expanded
  EXPECT_EQ(access_a(p), Access::AlongK);
  // Overlapping views: a row starts one element after the row before, at any address.
  p.a.row_stride = 1, p.a.col_stride = 1;
  EXPECT_EQ(access_a(p), Access::Elements);
  p = problem_of(64, 64, 64, DType::Float32, 2);
  p.b.batch_stride = 1;
  EXPECT_EQ(access_b(p), Access::Elements);
  p.batch = 1;
  EXPECT_EQ(access_b(p), Access::AlongMN);
}

// The stride of a dimension of size 1 is never used, so any will do.
TEST(Access, DimensionsOfSizeOne) {
  Problem row = problem_of("nn", 1, 64, 64, DType::Float32);
  row.a.row_stride = 77;
  EXPECT_EQ(access_a(row), Access::AlongK);
  row.a.row_stride = 1;
  EXPECT_EQ(access_a(row), Access::AlongK);
  row.a.col_stride = 77;  // a strided vector: vectors along m of one element each
  EXPECT_EQ(access_a(row), Access::AlongMN);

  Problem outer = problem_of("tn", 64, 64, 1, DType::Float32);
  outer.a.col_stride = 77;
  EXPECT_EQ(access_a(outer), Access::AlongMN);
  outer.a.row_stride = 77;
  EXPECT_EQ(access_a(outer), Access::AlongK);

  Problem column = problem_of("nt", 64, 1, 64, DType::Float32);
  column.b.col_stride = 77;
  EXPECT_EQ(access_b(column), Access::AlongK);

  Problem one = problem_of("nn", 1, 1, 1, DType::Float32);
  one.a.alignment = one.b.alignment = 4;
  EXPECT_NE(access_a(one), Access::Elements);
}

TEST(Access, OnlyRegisterTileChooses) {
  for (Algo algo : {Algo::Naive, Algo::SharedTile8, Algo::SharedTile16, Algo::SharedTile32})
    EXPECT_EQ(make_plan(problem_of(64, 64, 64), device("h200"), algo).access_a, Access::Elements);
}

// ---- what is supported ----------------------------------------------------------------------

TEST(Supports, EveryRungTakesEveryDtype) {
  for (const char* name : {"h200", "h100", "a100", "t4"})
    for (DType dtype : ALL_DTYPES) {
      const Problem p = problem_of("tn", 33, 65, 17, dtype);
      EXPECT_EQ(supported_algos(p, device(name)),
                std::vector<Algo>(std::begin(CUDA_ALGOS), std::end(CUDA_ALGOS)))
          << name << ' ' << name_of(dtype);
    }
}

TEST(Supports, NoCpuRungOnAGpu) {
  EXPECT_FALSE(supports(Algo::Blocked, problem_of(8, 8, 8), device("h200")));
}

TEST(Supports, OnlyTheIdentityEpilogue) {
  Problem p = problem_of(64, 64, 64);
  EXPECT_TRUE(supports(Algo::RegisterTile, p, device("h200")));
  p.epilogue.alpha = 2;
  EXPECT_FALSE(supports(Algo::RegisterTile, p, device("h200")));
  EXPECT_TRUE(supported_algos(p, device("h200")).empty());
}

// 512 threads a block and 16 KiB of shared memory: no 32 x 32 threads, no 128 x 128 tile.
TEST(Supports, TheDevicesLimits) {
  const DeviceInfo g80 = device("g80");
  EXPECT_EQ(
      supported_algos(problem_of(64, 64, 64), g80),
      (std::vector<Algo>{Algo::Naive, Algo::SharedTile8, Algo::SharedTile16, Algo::RegisterTile}));
  EXPECT_EQ(make_plan(problem_of(4096, 4096, 64), g80, Algo::RegisterTile).tile, TileSize::Small);
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
  EXPECT_EQ(make_plan(problem_of(last, 16, 1), d, Algo::SharedTile16).grid_x,
            (int64_t{1} << 31) - 1);
}

// Where small tiles are too many, the large one is taken, and the default leaves rungs out.
TEST(Supports, ThePlanFitsTheGrid) {
  const DeviceInfo d = device("h200");
  for (int shift = 20; shift <= 37; ++shift) {
    const Problem p = problem_of((int64_t{1} << shift) - 1, 1, 3, DType::Int8);
    const Plan plan = make_plan(p, d);
    EXPECT_TRUE(supports(plan.algo, p, d)) << shift;
    EXPECT_LE(plan.grid_x, MAX_GRID_X) << shift;
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
  EXPECT_GT(plan.grid_x, MAX_GRID_X);
  EXPECT_EQ(plan.tiles_m, int64_t{1} << 56);  // 2^63 / 128
}

}  // namespace
}  // namespace tiled::test
