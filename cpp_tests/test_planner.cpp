// What the planner chooses: grids, tiles, vectors, and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "cuda/plan/estimate.h"
#include "cuda/rungs/3_register_tile/tiles.h"
#include "cuda/rungs/4_mma_tile/tiles.h"
#include "planned.h"

namespace tiled::test {
namespace {

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

TEST(Plan, RegisterTileTakesItsTileByName) {
  const Plan plan = make_plan(problem_of(4096, 4096, 4096), device("t4"), Algo::RegisterTile);
  EXPECT_EQ(register_of(plan).tile, TileSize::Large);
  EXPECT_FALSE(register_of(plan).async);
  EXPECT_EQ(plan.block_m, Tile128x256::BLOCK_M);
  EXPECT_EQ(plan.block_n, Tile128x256::BLOCK_N);
  EXPECT_EQ(plan.main_step().threads_x, Tile128x256::THREADS);
  EXPECT_EQ(plan.main_step().threads_y, 1);
  EXPECT_EQ(plan.main_step().shared_bytes, Tile128x256::SHARED_BYTES);
}

// 768 x 768 is 36 tiles of 128 x 128 for 132 multiprocessors, but 144 small ones.
TEST(Plan, SmallTilesWhereLargeOnesLeaveMultiprocessorsIdle) {
  const Problem p = problem_of(768, 768, 4096, DType::Int32);
  const Plan plan = make_plan(p, device("h200"), Algo::RegisterTile);
  EXPECT_EQ(register_of(plan).tile, TileSize::Small);
  EXPECT_EQ(plan.block_m, Tile64x64::BLOCK_M);
}

// fp32 has a kernel of its own where cp.async exists, with its own tiles.
TEST(Plan, Fp32IsCopiedAsynchronouslyFrom80On) {
  for (const char* name : {"h200", "h100", "a100"}) {
    const Plan plan = make_plan(problem_of(4096, 4096, 4096), device(name), Algo::RegisterTile);
    EXPECT_TRUE(register_of(plan).async) << name;
    EXPECT_EQ(register_of(plan).tile, TileSize::Large);
    EXPECT_EQ(plan.block_m, AsyncTile128x128::BLOCK_M);
    EXPECT_EQ(plan.main_step().threads_x, AsyncTile128x128::THREADS);
    EXPECT_EQ(plan.main_step().shared_bytes, AsyncTile128x128::SHARED_BYTES);
  }
  for (DType dtype : ALL_DTYPES)
    EXPECT_EQ(
        register_of(make_plan(problem_of(300, 300, 300, dtype), device("a100"), Algo::RegisterTile))
            .async,
        dtype == DType::Float32)
        << name_of(dtype);
}

TEST(Plan, AsyncTilesFollowTheSize) {
  const auto tile = [](int64_t size) {
    const Problem p = problem_of(size, size, size);
    return register_of(make_plan(p, device("h200"), Algo::RegisterTile)).tile;
  };
  for (int64_t size : {64, 512, 896}) EXPECT_EQ(tile(size), TileSize::Small) << size;
  for (int64_t size : {1024, 1280, 1536}) EXPECT_EQ(tile(size), TileSize::Medium) << size;
  for (int64_t size : {2048, 4096, 16384}) EXPECT_EQ(tile(size), TileSize::Large) << size;
}

// Tiles are cut in time where they do not divide among the blocks: 324 among 264, 576 among 528.
TEST(Plan, TilesAreCutInTime) {
  const DeviceInfo d = device("h200");
  const auto blocks = [&](const Problem& p) {
    const Plan plan = make_plan(p, d, Algo::RegisterTile);
    const RegisterTileWay way = register_of(plan);
    EXPECT_EQ(way.wraps_around, way.blocks > 0);
    if (way.wraps_around) EXPECT_EQ(plan.main_step().grid_x, way.blocks);
    return way.blocks;
  };
  EXPECT_EQ(blocks(problem_of(2304, 2304, 2304)), 264);
  EXPECT_EQ(blocks(problem_of(1536, 1536, 1536)), 528);
  EXPECT_EQ(blocks(problem_of(1024, 1024, 1024)), 0);
  EXPECT_EQ(blocks(problem_of(4096, 4096, 4096)), 0);   // nearly divides
  EXPECT_EQ(blocks(problem_of(2304, 2304, 40000)), 0);  // K is cut, and has totals
  EXPECT_EQ(blocks(problem_of(2304, 2304, 2304, DType::Float32, 2)), 0);
  EXPECT_EQ(blocks(problem_of(2304, 2304, 0)), 0);
}

TEST(Plan, DefaultIsRegisterTileForLargeAndSharedTileForSmall) {
  const DeviceInfo d = device("h200");
  for (DType dtype : ALL_DTYPES)
    EXPECT_EQ(make_plan(problem_of(4096, 4096, 4096, dtype), d).algo,
              dtype == DType::Float64 ? Algo::MmaTile
              : size_of(dtype) == 1   ? Algo::AsyncMma
                                      : Algo::RegisterTile)
        << name_of(dtype);
  const Plan small = make_plan(problem_of(16, 16, 64), d);
  EXPECT_TRUE(small.algo == Algo::SharedTile8 || small.algo == Algo::SharedTile16 ||
              small.algo == Algo::SharedTile32)
      << name_of(small.algo);
}

// The same chains on tensor cores, where kernels for them exist.
TEST(Plan, Fp64RunsOnTensorCoresOf90) {
  for (int64_t size : {64, 1000, 4096}) {
    const Problem p = problem_of(size, size, size, DType::Float64);
    for (const char* name : {"h200", "h100"}) {
      EXPECT_EQ(make_plan(p, device(name)).algo, Algo::MmaTile) << name << ' ' << size;
      EXPECT_FALSE(supports(Algo::Hopper, p, device(name)));
    }
    for (const char* name : {"a100", "t4", "k40"}) {
      EXPECT_NE(make_plan(p, device(name)).algo, Algo::MmaTile) << name << ' ' << size;
      EXPECT_FALSE(supports(Algo::MmaTile, p, device(name))) << name;
    }
  }
  const Plan plan = make_plan(problem_of(4000, 4097, 4096, DType::Float64, 3), device("h200"));
  EXPECT_EQ(fp64_tile_of(plan), "Fp64Tile128x128");
  EXPECT_EQ(plan.block_m, Fp64Tile128x128::BLOCK_M);
  EXPECT_EQ(plan.main_step().threads_x, Fp64Tile128x128::THREADS);
  EXPECT_EQ(plan.main_step().shared_bytes, Fp64Tile128x128::SHARED_BYTES);
  EXPECT_EQ(plan.workspace_bytes, 0);
  EXPECT_EQ(plan.main_step().grid_x, 32 * 33);
  EXPECT_EQ(plan.main_step().grid_y, 3);
}

TEST(Plan, Fp64TilesFollowTheSize) {
  const auto tile = [](int64_t m, int64_t n, int64_t k) {
    return fp64_tile_of(
        make_plan(problem_of(m, n, k, DType::Float64), device("h200"), Algo::MmaTile));
  };
  for (int64_t size : {64, 512}) EXPECT_EQ(tile(size, size, size), "Fp64Tile32x64") << size;
  for (int64_t size : {640, 704}) EXPECT_EQ(tile(size, size, size), "Fp64Tile64x64") << size;
  EXPECT_EQ(tile(1024, 1024, 2176), "Fp64Tile128x64");
  EXPECT_EQ(tile(2816, 3456, 640), "Fp64Pair128x64");
  for (int64_t size : {4096, 16384}) EXPECT_EQ(tile(size, size, size), "Fp64Tile128x128") << size;
}

// 144 tiles among 132 multiprocessors are cut in time; 256 are nearly two rounds, and 4096 are
// many. Not tiles of batches, nor of a K of several segments.
TEST(Plan, Fp64TilesAreCutWhereTheyDoNotDivide) {
  const DeviceInfo d = device("h200");
  const auto blocks = [&](int64_t m, int64_t n, int64_t k, int64_t batch = 1) {
    const Plan plan = make_plan(problem_of(m, n, k, DType::Float64, batch), d, Algo::MmaTile);
    const int32_t cut = plan.way.as<Fp64Way>().blocks;
    if (cut > 0) {
      EXPECT_EQ(plan.step_count, 2);
      EXPECT_EQ(plan.steps[0].work, Work::Clear);
      EXPECT_EQ(plan.main_step().grid_x, cut);
      EXPECT_EQ(plan.main_step().workspace_bytes, int64_t{cut} * 128 * 128 * 8);
      EXPECT_EQ(plan.workspace_bytes, plan.main_step().workspace_bytes + (cut + 1) * 4);
    }
    return cut;
  };
  for (int64_t size : {1536, 2560, 3328}) EXPECT_EQ(blocks(size, size, size), 132) << size;
  EXPECT_EQ(blocks(3072, 1024, 4096), 132);
  for (int64_t size : {1024, 2048, 8192}) EXPECT_EQ(blocks(size, size, size), 0) << size;
  EXPECT_EQ(blocks(1536, 1536, 1536, 2), 0);
  EXPECT_EQ(blocks(1536, 1536, DEEP_K), 0);
}

// Each operand for itself: by 16 bytes along either direction, or by elements.
TEST(Plan, Fp64IsCopiedAsItLies) {
  const auto plan = [](const char* layout, int64_t m, int64_t n, int64_t k) {
    return make_plan(problem_of(layout, m, n, k, DType::Float64), device("h200"), Algo::MmaTile);
  };
  EXPECT_EQ(access_of(plan("nn", 64, 66, 128)).a, Access::AlongK);
  EXPECT_EQ(access_of(plan("nn", 64, 66, 128)).b, Access::AlongMN);
  EXPECT_EQ(access_of(plan("tt", 64, 66, 128)).a, Access::AlongMN);
  EXPECT_EQ(access_of(plan("tt", 64, 66, 128)).b, Access::AlongK);
  EXPECT_EQ(access_of(plan("nn", 64, 65, 128)).a, Access::AlongK);
  EXPECT_EQ(access_of(plan("nn", 64, 65, 128)).b, Access::Elements);  // rows of odd length
  EXPECT_EQ(access_of(plan("nt", 64, 65, 127)).b, Access::Elements);
  // A copy of 16 bytes wants its address aligned, even of one element.
  Problem one = problem_of("nn", 64, 64, 1, DType::Float64);
  EXPECT_EQ(access_of(make_plan(one, device("h200"))).a, Access::Elements);
  one = problem_of("tn", 1, 64, 64, DType::Float64);
  EXPECT_EQ(access_of(make_plan(one, device("h200"))).a, Access::Elements);
}

// The same problem many times over fills the device as one large problem does.
TEST(Plan, ABatchCountsAsBlocks) {
  const DeviceInfo d = device("h200");
  EXPECT_NE(make_plan(problem_of(128, 128, 64), d).algo, Algo::RegisterTile);
  EXPECT_EQ(make_plan(problem_of(128, 128, 64, DType::Float32, 10000), d).algo, Algo::RegisterTile);
}

TEST(Plan, TheNamedRungIsTaken) {
  for (const char* name : {"h200", "a100", "t4", "k40"})
    for (Algo algo : CUDA_ALGOS)
      for (int64_t size : {1, 17, 300, 5000}) {
        const Plan plan = make_plan(problem_of(size, size, size), device(name), algo);
        EXPECT_EQ(plan.algo, algo) << name << ' ' << name_of(algo) << ' ' << size;
        EXPECT_GE(plan.tiles_m * plan.block_m, size);
        EXPECT_GE(plan.tiles_n * plan.block_n, size);
        const bool cuts = algo == Algo::RegisterTile && register_of(plan).wraps_around;
        if (!cuts) EXPECT_EQ(plan.main_step().grid_x, plan.tiles_m * plan.tiles_n);
      }
}

TEST(Plan, EmptyProblems) {
  const DeviceInfo d = device("h200");
  EXPECT_EQ(make_plan(problem_of(0, 5, 7), d).main_step().grid_x, 0);
  EXPECT_EQ(make_plan(problem_of(5, 0, 7), d).main_step().grid_x, 0);
  EXPECT_EQ(make_plan(problem_of(5, 5, 7, DType::Float32, 0), d).main_step().grid_y, 0);
  // No k still has a result: zeros.
  EXPECT_GE(make_plan(problem_of(5, 5, 0), d).main_step().grid_x, 1);
}

TEST(Plan, BatchesBeyondTheGridAreWalked) {
  const DeviceInfo d = device("h200");
  EXPECT_EQ(make_plan(problem_of(8, 8, 8, DType::Float32, 65535), d).main_step().grid_y, 65535);
  EXPECT_EQ(make_plan(problem_of(8, 8, 8, DType::Float32, 65536), d).main_step().grid_y, 65535);
  EXPECT_EQ(make_plan(problem_of(8, 8, 8, DType::Float32, int64_t{1} << 40), d).main_step().grid_y,
            65535);
}

// ---- vectors --------------------------------------------------------------------------------

Access access_a(const Problem& p) {
  return access_of(make_plan(p, device("t4"), Algo::RegisterTile)).a;
}
Access access_b(const Problem& p) {
  return access_of(make_plan(p, device("t4"), Algo::RegisterTile)).b;
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
  p.a.row_stride = 1, p.a.col_stride = 1, p.a.alignment = alignment_of(nullptr, p.dtype, 1, 1, 0);
  EXPECT_EQ(access_a(p), Access::Elements);
  p = problem_of(64, 64, 64, DType::Float32, 2);
  EXPECT_EQ(access_b(p), Access::AlongMN);
  p.b.batch_stride = 1, p.b.alignment = alignment_of(nullptr, p.dtype, 64, 1, 1);
  EXPECT_EQ(access_b(p), Access::Elements);
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

// ---- fp32 by cp.async -----------------------------------------------------------------------

// Small enough that nothing is transposed first.
Plan async_plan(const Problem& p, const char* name = "h200") {
  const Plan plan = make_plan(p, device(name), Algo::RegisterTile);
  EXPECT_TRUE(register_of(plan).async);
  return plan;
}

// There are no vectors along k, and each operand is read as it can be.
TEST(AsyncAccess, VectorsOnlyAlongRowsThatAreAligned) {
  for (const std::string layout : {"nn", "nt", "tn", "tt"}) {
    Problem p = problem_of(layout, 64, 96, 128, DType::Float32);
    const Access a = layout[0] == 't' ? Access::AlongMN : Access::Elements;
    const Access b = layout[1] == 'n' ? Access::AlongMN : Access::Elements;
    EXPECT_EQ(access_of(async_plan(p)).a, a) << layout;
    EXPECT_EQ(access_of(async_plan(p)).b, b) << layout;
    p.a.alignment = 8;
    EXPECT_EQ(access_of(async_plan(p)).a, Access::Elements) << layout;
    EXPECT_EQ(access_of(async_plan(p)).b, b) << layout;
  }
  // A row of 130 fp32 is 520 bytes, 8 short of a multiple of 16.
  EXPECT_EQ(access_of(async_plan(problem_of("tn", 64, 130, 128, DType::Float32))).b,
            Access::Elements);
}

TEST(AsyncAccess, StridesThatHaveNoVectors) {
  Problem p = problem_of("tn", 64, 64, 64, DType::Float32);
  p.a.col_stride = 1;  // a column starts one element after the column before
  p.a.alignment = alignment_of(nullptr, p.dtype, 1, 1, 0);
  EXPECT_EQ(access_of(async_plan(p)).a, Access::Elements);
  p.a.col_stride = 0, p.a.alignment = 16;  // one column, expanded
  EXPECT_EQ(access_of(async_plan(p)).a, Access::AlongMN);
  p.a.row_stride = 0;  // one number, expanded
  EXPECT_EQ(access_of(async_plan(p)).a, Access::Elements);
  p = problem_of(64, 64, 64, DType::Float32, 2);
  EXPECT_EQ(access_of(async_plan(p)).b, Access::AlongMN);
  p.b.batch_stride = 1, p.b.alignment = alignment_of(nullptr, p.dtype, 64, 1, 1);
  EXPECT_EQ(access_of(async_plan(p)).b, Access::Elements);
}

// A single row is no vector: its address needs no alignment.
TEST(AsyncAccess, DimensionsOfSizeOne) {
  Problem row = problem_of("tn", 1, 64, 64, DType::Float32);
  for (int64_t stride : {1, 77}) {
    row.a.row_stride = stride, row.a.col_stride = 77;
    EXPECT_EQ(access_of(async_plan(row)).a, Access::Elements);
  }
  Problem outer = problem_of("tn", 64, 64, 1, DType::Float32);
  outer.a.col_stride = 77;
  EXPECT_EQ(access_of(async_plan(outer)).a, Access::AlongMN);
  outer.a.row_stride = 77;
  EXPECT_EQ(access_of(async_plan(outer)).a, Access::Elements);
}

// What does not come by vectors is transposed first if the product is long enough for that.
TEST(AsyncTranspose, OperandsAlongKOfLargeProducts) {
  for (const std::string layout : {"nn", "nt", "tn", "tt"}) {
    const bool a = layout[0] == 'n', b = layout[1] == 't';
    for (int64_t size : {2048, 4096, 8192}) {
      const Plan plan = async_plan(problem_of(layout, size, size, size, DType::Float32));
      EXPECT_EQ(register_of(plan).transpose_a, a) << layout << size;
      EXPECT_EQ(register_of(plan).transpose_b, b) << layout << size;
      EXPECT_EQ(access_of(plan).a, Access::AlongMN);
      EXPECT_EQ(access_of(plan).b, Access::AlongMN);
      EXPECT_EQ(plan.workspace_bytes, (a + b) * size * size * 4) << layout << size;
    }
    const Plan small = async_plan(problem_of(layout, 512, 512, 512, DType::Float32));
    EXPECT_FALSE(register_of(small).transpose_a || register_of(small).transpose_b) << layout;
    EXPECT_EQ(small.workspace_bytes, 0);
  }
}

// Where K is cut, the running total of every element of every tile in flight waits in the
// workspace, or every segment's sums, where blocks share segments out. (A and B lie as no kernel
// would have them transposed.)
TEST(Totals, OfTilesInFlightWhereKIsCut) {
  const DeviceInfo d = device("h200");
  for (DType dtype : ALL_DTYPES)
    for (Algo algo : {Algo::Naive, Algo::SharedTile32, Algo::RegisterTile, Algo::MmaTile}) {
      if (algo == Algo::MmaTile && dtype != DType::Float64) continue;
      const bool keeps = algo == Algo::RegisterTile || algo == Algo::MmaTile;
      const Problem shallow = problem_of("tn", 320, 208, DEEP_K - 1, dtype);
      EXPECT_EQ(make_plan(shallow, d, algo).workspace_bytes, 0);
      Problem deep = problem_of("tn", 320, 208, DEEP_K, dtype);
      for (int64_t batch : {1, 7, 100000}) {
        deep.batch = batch;
        const Plan plan = make_plan(deep, d, algo);
        const int64_t tiles = plan.tiles_m * plan.tiles_n * std::min(batch, MAX_GRID_Y);
        const int64_t tile = plan.block_m * plan.block_n * accumulator_bytes(dtype);
        const bool shares = shares_segments(plan);
        if (batch != 7) EXPECT_EQ(shares, keeps && batch == 1) << name_of(dtype) << name_of(algo);
        const int64_t sums = 8 * batch * deep.m * deep.n * accumulator_bytes(dtype);
        EXPECT_EQ(plan.workspace_bytes, shares  ? sums
                                        : keeps ? tiles * tile
                                                : 0)
            << name_of(dtype) << name_of(algo) << batch;
      }
    }
}

// Before them lie the operands that are transposed.
TEST(Totals, BesideTransposedOperands) {
  const Plan plan = async_plan(problem_of("nn", 4096, 2048, DEEP_K, DType::Float32));
  EXPECT_TRUE(register_of(plan).transpose_a);
  EXPECT_EQ(plan.workspace_bytes, int64_t{4096} * (2048 + DEEP_K) * 4);
}

TEST(Totals, BeyondAllMemory) {
  // 3 2^29 tiles of 128 KiB, 65,535 times.
  const Problem p = problem_of(int64_t{3} << 21, 1 << 23, DEEP_K, DType::Int8, 65535);
  const Plan plan = make_plan(p, device("h200"), Algo::RegisterTile);
  EXPECT_EQ(plan.main_step().grid_x, int64_t{3} << 29);
  EXPECT_EQ(plan.workspace_bytes, std::numeric_limits<int64_t>::max());
}

// A large operand that meets few rows or columns of the other is read once or twice anyway.
TEST(AsyncTranspose, NotWhereThePassWouldTakeLonger) {
  const Plan plan = async_plan(problem_of("nt", 64, 16384, 16384, DType::Float32));
  EXPECT_FALSE(register_of(plan).transpose_b);
  EXPECT_FALSE(
      register_of(async_plan(problem_of("nt", 4096, 4096, 0, DType::Float32))).transpose_a);
}

TEST(AsyncTranspose, OnlyOn90) {
  const Plan plan = async_plan(problem_of(4096, 4096, 4096), "a100");
  EXPECT_FALSE(register_of(plan).transpose_a);
  EXPECT_EQ(access_of(plan).a, Access::Elements);
  EXPECT_NE(plan.begin()->work, Work::Copy);
}

// Rows of 4097 come to lie 4128 apart, whole lines of 128 bytes.
TEST(AsyncTranspose, MisalignedOperandsAreCopiedToo) {
  const Plan plan = async_plan(problem_of("nn", 4096, 4097, 4096, DType::Float32));
  EXPECT_TRUE(register_of(plan).transpose_a && register_of(plan).transpose_b);
  EXPECT_EQ(plan.workspace_bytes, 4096 * 4096 * 4 + 4096 * 4128 * 4);
}

// One matrix for a whole batch is copied once, others each.
TEST(AsyncTranspose, Batches) {
  Problem p = problem_of(1024, 1024, 1024, DType::Float32, 5);
  EXPECT_TRUE(register_of(async_plan(p)).transpose_a);
  EXPECT_EQ(async_plan(p).workspace_bytes, 5 * 1024 * 1024 * 4);
  p.a.batch_stride = 0;
  EXPECT_TRUE(register_of(async_plan(p)).transpose_a);
  EXPECT_EQ(async_plan(p).workspace_bytes, 1024 * 1024 * 4);
}

// A copy of an expanded or overlapping view could be larger than the memory.
TEST(AsyncTranspose, ViewsThatOverlapAreReadWhereTheyLie) {
  Problem p = problem_of(4096, 4096, 4096);
  const auto transposes = [&](int64_t row_stride, int64_t col_stride) {
    p.a.row_stride = row_stride, p.a.col_stride = col_stride, p.a.alignment = 4;
    return register_of(async_plan(p)).transpose_a;
  };
  EXPECT_TRUE(transposes(4096, 1));
  EXPECT_TRUE(transposes(8192, 2));
  EXPECT_TRUE(transposes(1, 4097));
  EXPECT_FALSE(transposes(0, 1));
  EXPECT_FALSE(transposes(4096, 0));
  EXPECT_FALSE(transposes(1, 1));     // windows
  EXPECT_FALSE(transposes(4095, 1));  // rows that share an element
  p.batch = 3, p.a.batch_stride = 4096;
  EXPECT_TRUE(transposes(3 * 4096, 1));  // batch entries row by row
  p.a.batch_stride = 1;
  EXPECT_FALSE(transposes(4096, 1));
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
  EXPECT_EQ(register_of(make_plan(problem_of(4096, 4096, 64), g80, Algo::RegisterTile)).tile,
            TileSize::Small);
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

// A problem of aligned operands with one of them changed.
template <typename Change>
Problem changed(const char* layout, Change change) {
  Problem p = tensor_problem(layout, 64, 128, 256);
  change(p);
  return p;
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
    const Problem p = problem_of("tn", 4096, 4096, 4096, dtype);
    EXPECT_EQ(supported_algos(p, d), Algos(std::begin(CUDA_ALGOS), std::end(CUDA_ALGOS)));
    EXPECT_EQ(make_plan(p, d).algo, Algo::RegisterTile) << name_of(dtype);
  }
  const Problem transposed = problem_of("nt", 8192, 8192, 8192, DType::Float32);
  EXPECT_GT(make_plan(transposed, device("h200")).workspace_bytes, 0);
  EXPECT_EQ(make_plan(transposed, d).workspace_bytes, 0);
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
    EXPECT_EQ(make_plan(p, d).algo, Algo::MmaTile);
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

// What stands in every plan that hopper could be given.
void expect_sound(const Problem& p, const DeviceInfo& d, const HopperPlan& plan) {
  const HopperTileInfo& tile = hopper_tile(plan.tile);
  const int cluster = plan.cluster_p * plan.cluster_q;
  EXPECT_GE(cluster, 1);
  EXPECT_LE(cluster, 4);
  EXPECT_TRUE(plan.cluster_p == 1 || plan.cluster_q == 1);
  EXPECT_GT(plan.blocks, 0);
  EXPECT_EQ(plan.blocks % cluster, 0);
  EXPECT_LE(plan.blocks, d.multiprocessors * tile.blocks_per_sm);  // all of them at once
  EXPECT_GE(plan.panel, 1);
  EXPECT_LE(tile.shared_bytes, d.shared_bytes_per_block);
  EXPECT_LE((tile.shared_bytes + d.shared_bytes_reserved) * tile.blocks_per_sm,
            d.shared_bytes_per_sm);
  EXPECT_LE(tile.threads, d.threads_per_block);
  EXPECT_GE(occupancy(d, {tile.threads, 0, tile.shared_bytes}).blocks_per_sm, tile.blocks_per_sm);
  if (plan.share_segments) {
    EXPECT_GT(segment_count(p.k), 1);
  }
  if (plan.wraps_around) {
    const HopperLayout layout = hopper_layout(p, plan, nullptr);
    const int64_t tile_bytes = int64_t{4} * tile.block_p * tile.block_q;
    EXPECT_EQ(segment_count(p.k), 1);
    EXPECT_TRUE(p.epilogue.is_identity());
    EXPECT_GT(units_of(p, plan).count, plan.blocks / cluster) << "no tile to cut";
    EXPECT_EQ(wrap_around(p, plan).clusters, plan.blocks / cluster);
    EXPECT_GE(layout.totals_bytes, plan.blocks * tile_bytes);
    EXPECT_EQ(layout.words_bytes(), 4 * (1 + plan.blocks)) << "a ticket, and a flag a block";
    EXPECT_EQ(layout.words_at() % 4, 0);
  }
  const HopperEstimate e = estimate(p, d, HopperModel(d, p.arithmetic), plan);
  EXPECT_GT(e.cycles, 0);
  EXPECT_TRUE(e.tensor > 0 && e.shared > 0 && e.feed > 0 && e.waves > 0);
  const Plan whole = plan_with(Algo::Hopper, p, d, plan);
  EXPECT_EQ(whole.algo, Algo::Hopper);
  EXPECT_EQ(whole.main_step().grid_x, plan.blocks);
  EXPECT_EQ(whole.main_step().threads_x, tile.threads);
  EXPECT_EQ(whole.main_step().shared_bytes, tile.shared_bytes);
  EXPECT_EQ(whole.block_m * whole.block_n, tile.block_p * tile.block_q);
  int64_t of_steps = 0;  // every byte is some kernel's
  for (const Step& step : whole) of_steps += step.workspace_bytes;
  EXPECT_EQ(whole.workspace_bytes, of_steps);
  EXPECT_GE(whole.tiles_m * whole.block_m, p.m);
  EXPECT_GE(whole.tiles_n * whole.block_n, p.n);
}

// Tiles are cut in time where there are more than clusters, and the last round is not nearly full.
TEST(HopperPlans, CutTilesInTimeWhereTheyDoNotDivide) {
  const DeviceInfo d = device("h200");
  const auto cut = [&](int64_t m, int64_t n, int64_t k, DType dtype = DType::BFloat16) {
    const Problem p = tensor_problem("nt", m, n, k, dtype);
    int found = 0;
    for (const HopperPlan& plan : hopper_plans(p, d)) {
      if (!plan.wraps_around) continue;
      ++found;
      expect_sound(p, d, plan);
      const Plan whole = plan_with(Algo::Hopper, p, d, plan);
      EXPECT_EQ((&whole.main_step())[-1].work, Work::Clear);
      const Description about = rung_of(Algo::Hopper)->describe(p, d, whole);
      EXPECT_EQ(about.kernel.rfind("hopper_cut<", 0), 0);
      EXPECT_TRUE(std::any_of(about.lines.begin(), about.lines.end(),
                              [](const auto& line) { return line.first == "cuts"; }));
    }
    return found;
  };
  for (const DType dtype : TENSOR_DTYPES) {
    EXPECT_GT(cut(2304, 2304, 2304, dtype), 40);
    EXPECT_GT(cut(1024, 5120, 5120, dtype), 40);
    EXPECT_EQ(cut(512, 512, 4096, dtype), 0);       // one round
    EXPECT_EQ(cut(2304, 2304, 40000, dtype), 0);    // several segments
    EXPECT_EQ(cut(16384, 16384, 16384, dtype), 0);  // many rounds
  }
  EXPECT_TRUE(hopper_of(make_plan(tensor_problem("nt", 320, 13824, 5120), d)).wraps_around);
  Problem finished = tensor_problem("nt", 320, 13824, 5120);
  finished.epilogue.activation = Activation::Relu;
  EXPECT_FALSE(hopper_of(make_plan(finished, d)).wraps_around);
}

TEST(HopperPlans, AreWithinTheHardwaresLimits) {
  for (const char* name : {"h200", "h100", "h100-pcie", "h20", "gh200"})
    for (DType dtype : TENSOR_DTYPES)
      for (const std::string layout : {"nn", "nt", "tn", "tt"})
        for (const auto& [m, n, k] : {std::tuple{1, 1, 1},
                                      {1, 57344, 8192},
                                      {131072, 64, 64},
                                      {65, 33, 4097},
                                      {65, 33, 36865},
                                      {4096, 4096, 4096}}) {
          const DeviceInfo d = device(name);
          const Problem p = tensor_problem(layout, m, n, k, dtype);
          const std::vector<HopperPlan> plans = hopper_plans(p, d);
          EXPECT_GE(plans.size(), size_t{HOPPER_TILE_COUNT});
          for (const HopperPlan& plan : plans) expect_sound(p, d, plan);
        }
}

TEST(HopperPlans, TheChoiceIsOneOfThem) {
  const DeviceInfo d = device("h200");
  for (DType dtype : TENSOR_DTYPES)
    for (const auto& [m, n, k] : {std::tuple{512, 512, 512}, {4096, 4096, 4096}, {64, 64, 65536}}) {
      const Problem p = tensor_problem("nn", m, n, k, dtype);
      const HopperPlan choice = hopper_of(make_plan(p, d, Algo::Hopper));
      bool found = false;
      for (const HopperPlan& plan : hopper_plans(p, d))
        found |= plan.tile == choice.tile && plan.exchanged == choice.exchanged &&
                 plan.cluster_p == choice.cluster_p && plan.cluster_q == choice.cluster_q &&
                 plan.share_segments == choice.share_segments &&
                 plan.wraps_around == choice.wraps_around && plan.blocks == choice.blocks;
      EXPECT_TRUE(found) << name_of(dtype) << ' ' << m << ' ' << n << ' ' << k;
    }
}

// Plans are remembered; what is remembered must be the same problem's.
TEST(HopperPlans, AreNotMistakenForAnothers) {
  const DeviceInfo d = device("h200");
  const Problem aligned = tensor_problem("nn", 512, 512, 512);
  Problem misaligned = aligned;
  misaligned.a.alignment = 2;
  Problem wide = aligned;
  wide.epilogue.out_dtype = DType::Float32;
  Problem deep = tensor_problem("nn", 512, 512, 32768);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(make_plan(aligned, d, Algo::Hopper).workspace_bytes, 0);
    EXPECT_GT(make_plan(misaligned, d, Algo::Hopper).workspace_bytes, 0);
    EXPECT_EQ(hopper_of(make_plan(wide, d, Algo::Hopper)).store, StorePath::Scatter);
    EXPECT_EQ(hopper_of(make_plan(aligned, d, Algo::Hopper)).store, StorePath::Tma);
    EXPECT_GT(make_plan(deep, d, Algo::Hopper).workspace_bytes, 0);
  }
}

// int32 sums of bytes run where bytes do, with a C four times as large, which the estimate counts.
TEST(Plans, OfInt32SumsOfBytes) {
  const auto of_sums = [](Problem p) {
    p.epilogue.out_dtype = DType::Int32;
    return p;
  };
  for (const char* name : {"a100", "h200", "t4", "k40"})
    for (const DType dtype : {DType::Int8, DType::UInt8}) {
      const DeviceInfo d = device(name);
      for (const int64_t k : {64, 4096, 40000}) {
        const Problem p = problem_of("nt", 512, 512, k, dtype);
        for (const Algo algo : ALL_ALGOS)
          EXPECT_EQ(supports(algo, of_sums(p), d), supports(algo, p, d));
        EXPECT_EQ(make_plan(of_sums(p), d).algo, make_plan(p, d).algo) << name << ' ' << k;
      }
      // Next to no K: C is what takes time.
      const Problem flat = problem_of("nt", 8192, 8192, 64, dtype);
      if (!supports(Algo::AsyncMma, flat, d)) continue;
      EXPECT_EQ(make_plan(flat, d).algo, Algo::AsyncMma);
      EXPECT_GT(estimated_plan(of_sums(flat), d).cycles, estimated_plan(flat, d).cycles);
    }
}

// A layer's: bias along N, and where it is asked for an activation, and the value before it kept.
Problem finished(Problem p, Activation activation = Activation::None, bool keeps = false) {
  static float memory;  // never read
  p.epilogue.bias_along = Along::N, p.epilogue.bias_dtype = p.dtype, p.epilogue.bias_stride = 1;
  p.epilogue.activation = activation;
  if (keeps) p.epilogue.before = {&memory, p.n, 1, 0, p.epilogue.out_dtype};
  return p;
}

// What was planned for a bare product is not taken for one with a bias, nor the other way round: an
// epilogue has its price. So have activations, and a value before them that is kept.
TEST(Plans, AreOfTheirEpilogue) {
  const DeviceInfo d = device("h200");
  const auto seen = [](const Plan& plan) {
    return std::tuple(plan.algo, plan.block_m, plan.block_n);
  };
  std::array<int, 4> others{};
  for (const int64_t m : {96, 256, 512, 1024, 1536})
    for (const int64_t n : {256, 1024, 4096}) {
      const Problem bare = tensor_problem("nt", m, n, 1024);
      const Problem all[] = {bare, finished(bare), finished(bare, Activation::Relu),
                             finished(bare, Activation::Gelu),
                             finished(bare, Activation::Gelu, /*keeps=*/true)};
      for (int round = 0; round < 2; ++round)
        for (const Problem& p : all)
          EXPECT_TRUE(seen(make_plan(p, d)) == seen(estimated_plan(p, d).plan)) << m << ' ' << n;
      for (int i = 0; i < 4; ++i)
        others[i] += seen(make_plan(all[i], d)) != seen(make_plan(all[i + 1], d));
    }
  EXPECT_GT(others[0], 0);              // bare and a bias
  EXPECT_GT(others[2] + others[3], 0);  // relu, gelu, and a value that is kept
}

// More to do takes longer, whatever the tile, and the longer the more rounds of tiles there are;
// unless a consumer finishes beside the products of another.
TEST(HopperPlans, AnEpilogueHasItsPrice) {
  const DeviceInfo d = device("h200");
  const Problem bare = tensor_problem("nt", 2048, 4096, 1024);
  const Problem all[] = {bare, finished(bare), finished(bare, Activation::Relu),
                         finished(bare, Activation::Silu),
                         finished(bare, Activation::Silu, /*keeps=*/true)};
  const HopperModel model(d, bare.arithmetic);
  for (const HopperPlan& plan : hopper_plans(bare, d))
    for (int i = 0; i < 4; ++i)
      EXPECT_LT(estimate(all[i], d, model, plan).cycles,
                estimate(all[i + 1], d, model, plan).cycles)
          << hopper_tile_name(plan.tile) << ' ' << i;
  // Of sixteen rounds that last long one is felt in the end, and of each other a tenth at most.
  const Problem long_one = tensor_problem("nt", 8192, 4096, 14336);
  for (const HopperPlan& plan : hopper_plans(long_one, d)) {
    const double more = estimate(finished(long_one, Activation::Gelu), d, model, plan).cycles -
                        estimate(long_one, d, model, plan).cycles;
    if (hopper_tile_name(plan.tile) == "Ping128x128") EXPECT_LT(more, 30e3);
    if (hopper_tile_name(plan.tile) == "Coop128x256") EXPECT_GT(more, 60e3);
  }
}

// The choices of an H200 beside the times of bench/results/h200_linear_tiles.txt: no tile is taken
// that took 3 % longer than the best, and never few_rows where it keeps a value.
TEST(Plans, OfLayersAreNearTheBestMeasured) {
  const DeviceInfo d = device("h200");
  const auto tile_of = [&](int64_t m, int64_t n, int64_t k, Activation activation, bool keeps) {
    const Plan plan = make_plan(finished(tensor_problem("nt", m, n, k), activation, keeps), d);
    return plan.algo != Algo::Hopper ? std::string(name_of(plan.algo))
                                     : std::string(hopper_tile_name(hopper_of(plan).tile));
  };
  for (const Activation activation : {Activation::None, Activation::Relu, Activation::Gelu}) {
    EXPECT_EQ(tile_of(2048, 4096, 1024, activation, false), "Ping128x128");
    EXPECT_EQ(tile_of(8192, 4096, 14336, activation, false), "Ping128x128");
  }
  EXPECT_EQ(tile_of(2048, 4096, 1024, Activation::Gelu, true), "Ping128x128");
  EXPECT_EQ(tile_of(8192, 4096, 14336, Activation::Gelu, true), "Ping128x128");
  EXPECT_EQ(tile_of(1024, 4096, 1024, Activation::Gelu, false), "Coop128x256");
  EXPECT_EQ(tile_of(1024, 4096, 1024, Activation::Gelu, true), "Coop128x256");
  EXPECT_EQ(tile_of(512, 1024, 4096, Activation::Gelu, false), "Deep64x64");
  EXPECT_EQ(tile_of(512, 1024, 4096, Activation::Gelu, true), "Deep64x64");
}

// The operand that needs it is copied, the other one is not, whichever of them is called P.
TEST(HopperPlans, OnlyWhatTmaCannotReadIsRepacked) {
  const DeviceInfo d = device("h200");
  const auto expect_repacks = [&](const Problem& p, bool a, bool b) {
    for (const HopperPlan& plan : hopper_plans(p, d)) {
      EXPECT_EQ(plan.exchanged ? plan.repack_q : plan.repack_p, a);
      EXPECT_EQ(plan.exchanged ? plan.repack_p : plan.repack_q, b);
    }
  };
  for (const char* layout : {"nn", "nt", "tn", "tt"}) {
    expect_repacks(changed(layout, [](Problem&) {}), false, false);
    expect_repacks(changed(layout, [](Problem& p) { p.a.alignment = 2; }), true, false);
    expect_repacks(changed(layout, [](Problem& p) { p.b.alignment = 8; }), false, true);
    expect_repacks(changed(layout, [](Problem& p) { p.b.row_stride = p.b.col_stride = 0; }), false,
                   true);
  }
}

// tf32 along m or n, which wgmma takes as P from registers, where a tile has those.
TEST(HopperPlans, Tf32ThatDoesNotLieAlongKIsReadByRegistersOrRepacked) {
  const DeviceInfo d = device("h200");
  for (const std::string layout : {"nn", "nt", "tn", "tt"})
    for (const HopperPlan& plan :
         hopper_plans(tensor_problem(layout, 64, 128, 256, DType::Float32), d)) {
      const bool a_mn = layout[0] == 't', b_mn = layout[1] == 'n';
      const HopperTileInfo& tile = hopper_tile(plan.tile);
      const bool by_registers = reads_by_registers(tile.group_p, tile.group_q, tile.consumers);
      EXPECT_EQ(plan.repack_p, (plan.exchanged ? b_mn : a_mn) && !by_registers);
      EXPECT_EQ(plan.repack_q, plan.exchanged ? a_mn : b_mn);
    }
}

// Rows of 131 elements come to lie 136 apart, in the direction that they had; what has none, and
// tf32, along K.
TEST(HopperPlans, BytesOfRepackedOperands) {
  const DeviceInfo d = device("h200");
  const auto workspace = [&](const Problem& p) {
    return make_plan(p, d, Algo::Hopper).workspace_bytes;
  };
  const auto rounded = [](int64_t bytes) { return workspace_aligned(bytes); };
  EXPECT_EQ(workspace(tensor_problem("nn", 40, 64, 131)), rounded(40 * 192 * 2));
  EXPECT_EQ(workspace(tensor_problem("tn", 131, 64, 40)), rounded(40 * 192 * 2));
  EXPECT_EQ(workspace(tensor_problem("nt", 64, 40, 131)),
            rounded(64 * 192 * 2) + rounded(40 * 192 * 2));
  EXPECT_EQ(workspace(tensor_problem("nn", 64, 131, 40)), rounded(40 * 192 * 2));
  EXPECT_EQ(workspace(tensor_problem("nn", 40, 131, 61)),
            rounded(40 * 64 * 2) + rounded(61 * 192 * 2));
  // A lies along m: as Q it is copied, as P only for tiles that do not take it from registers.
  const Problem tf32 = tensor_problem("tt", 64, 128, 61, DType::Float32);
  for (const HopperPlan& plan : hopper_plans(tf32, d)) {
    const HopperTileInfo& tile = hopper_tile(plan.tile);
    const bool copies_a =
        plan.exchanged || !reads_by_registers(tile.group_p, tile.group_q, tile.consumers);
    EXPECT_EQ(plan_with(Algo::Hopper, tf32, d, plan).workspace_bytes,
              (copies_a ? rounded(64 * 64 * 4) : 0) + rounded(128 * 64 * 4));
  }
  Problem strided = tensor_problem("nn", 40, 64, 131);
  strided.a.row_stride = 1000, strided.a.col_stride = 3;
  EXPECT_EQ(workspace(strided), rounded(40 * 192 * 2));
  // One matrix for a whole batch is copied once, others each.
  Problem batch = tensor_problem("nn", 40, 64, 131);
  batch.batch = 5;
  EXPECT_EQ(workspace(batch), rounded(5 * 40 * 192 * 2));
  batch.a.batch_stride = 0;
  EXPECT_EQ(workspace(batch), rounded(40 * 192 * 2));
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

// Of a K that is cut: the totals of the tiles that blocks hold, or every segment's sums.
TEST(HopperPlans, BytesOfSegments) {
  const DeviceInfo d = device("h200");
  const Problem one = tensor_problem("nn", 256, 256, 32760),
                eight = tensor_problem("nn", 256, 256, 32768);
  for (const HopperPlan& plan : hopper_plans(one, d)) {
    EXPECT_FALSE(plan.share_segments);
    EXPECT_EQ(plan_with(Algo::Hopper, one, d, plan).workspace_bytes, 0);
  }
  int shared = 0;
  for (const HopperPlan& plan : hopper_plans(eight, d)) {
    const HopperTileInfo& tile = hopper_tile(plan.tile);
    const int64_t tiles = tile.ping_pong ? tile.consumers : 1;  // of one block, at a time
    const int64_t totals =
        tile.totals_fit ? 0 : tiles * plan.blocks * tile.block_p * tile.block_q * 4;
    EXPECT_EQ(plan_with(Algo::Hopper, eight, d, plan).workspace_bytes,
              plan.share_segments ? 8 * 256 * 256 * 4 : totals);
    shared += plan.share_segments;
  }
  EXPECT_GT(shared, 0);
}

// Tf32 has registers of its own for an operand, and so its totals always wait in the workspace.
TEST(HopperPlans, TotalsThatFitRegistersWaitThere) {
  EXPECT_TRUE(Coop128x176::TOTALS_FIT && Coop192x96::TOTALS_FIT && Deep64x160::TOTALS_FIT);
  EXPECT_FALSE(Coop128x256::TOTALS_FIT || Coop192x128::TOTALS_FIT || Ping128x128::TOTALS_FIT);
  const DeviceInfo d = device("h200");
  for (const DType dtype : {DType::Float32, DType::BFloat16}) {
    const Problem p = tensor_problem("nn", 256, 256, 32768, dtype);
    for (const HopperPlan& plan : hopper_plans(p, d))
      if (!plan.share_segments && hopper_tile(plan.tile).totals_fit)
        EXPECT_EQ(hopper_layout(p, plan, nullptr).totals_bytes > 0, dtype == DType::Float32);
  }
}

// Of shared segments, all tiles of one are in the same round, where that costs no round.
TEST(HopperPlans, KeepTheTilesOfASegmentTogether) {
  const DeviceInfo d = device("h200");
  int together = 0, apart = 0;
  for (const auto& [m, n, k, batch] : {std::tuple{512, 512, 131072, 1},
                                       {768, 640, 32768, 1},
                                       {128, 1024, 100000, 1},
                                       {64, 64, 65536, 1},
                                       {512, 512, 32768, 3}}) {
    Problem p = tensor_problem("nn", m, n, k);
    p.batch = batch;
    for (const HopperPlan& plan : hopper_plans(p, d)) {
      if (!plan.share_segments) continue;
      const Units units = units_of(p, plan);
      const int cluster = plan.cluster_p * plan.cluster_q;
      const int64_t tiles = units.clusters_p * units.clusters_q;  // of a segment
      const int64_t clusters = plan.blocks / cluster;
      const int64_t places = clusters_at_once(d, cluster) * hopper_tile(plan.tile).blocks_per_sm;
      EXPECT_EQ(blocks_over(units.count, clusters), blocks_over(units.count, places));
      const int64_t whole = places / tiles * tiles;
      const bool costs =
          whole == 0 || blocks_over(units.count, whole) != blocks_over(units.count, places);
      if (units.count <= clusters) continue;  // one round
      (clusters % tiles == 0 ? together : apart) += 1;
      EXPECT_TRUE(clusters % tiles == 0 || costs);
    }
  }
  EXPECT_GT(together, 20);
  EXPECT_GT(apart, 0);
}

TEST(HopperPlans, HowTheResultIsStored) {
  const DeviceInfo d = device("h200");
  const auto store = [&](const Problem& p) {
    const StorePath path = hopper_of(make_plan(p, d, Algo::Hopper)).store;
    for (const HopperPlan& plan : hopper_plans(p, d)) EXPECT_EQ(plan.store, path);
    return path;
  };
  const auto with_c = [](int64_t row_stride, int64_t col_stride, int32_t alignment) {
    Problem p = tensor_problem("nn", 64, 128, 256);
    p.c.row_stride = row_stride, p.c.col_stride = col_stride, p.c.alignment = alignment;
    return p;
  };
  EXPECT_EQ(store(with_c(128, 1, 16)), StorePath::Tma);
  EXPECT_EQ(store(with_c(1, 64, 16)), StorePath::Tma);  // its transpose lies in rows
  EXPECT_EQ(store(with_c(136, 1, 8)), StorePath::Rows);
  EXPECT_EQ(store(with_c(131, 1, 2)), StorePath::Rows);
  EXPECT_EQ(store(with_c(1, 65, 2)), StorePath::Rows);
  EXPECT_EQ(store(with_c(512, 3, 2)), StorePath::Scatter);
  Problem short_rows = with_c(136, 1, 16);  // TMA would write to the end of their last 16 bytes
  short_rows.n = 125;
  EXPECT_EQ(store(short_rows), StorePath::Rows);
  Problem fp32 = with_c(128, 1, 16);
  fp32.epilogue.out_dtype = DType::Float32;
  EXPECT_EQ(store(fp32), StorePath::Scatter);
  EXPECT_EQ(store(tensor_problem("nn", 64, 128, 256, DType::Float32)), StorePath::Scatter);
}

TEST(TensorPlan, TheNamedRungIsTaken) {
  const DeviceInfo d = device("h200");
  for (DType dtype : TENSOR_DTYPES)
    for (Algo algo : tensor_algos(false, dtype))
      for (int64_t size : {8, 64, 264, 5000}) {
        const Problem p = tensor_problem("nt", size, size, size, dtype);
        ASSERT_TRUE(supports(algo, p, d)) << name_of(algo);
        const Plan plan = make_plan(p, d, algo);
        EXPECT_EQ(plan.algo, algo);
        EXPECT_GE(plan.tiles_m * plan.block_m, size);
        EXPECT_GE(plan.tiles_n * plan.block_n, size);
        EXPECT_GT(plan.main_step().grid_x, 0);
        EXPECT_LE(plan.main_step().shared_bytes, d.shared_bytes_per_block);
        EXPECT_LE(plan.main_step().threads_x * plan.main_step().threads_y, d.threads_per_block);
      }
}

TEST(TensorPlan, TheLessonsHaveABlockForEachTile) {
  const Problem p = tensor_problem("nt", 264, 264, 264);
  for (Algo algo : {Algo::MmaTile, Algo::TmaWgmma, Algo::WarpSpecialized}) {
    const Plan plan = make_plan(p, device("h200"), algo);
    EXPECT_EQ(plan.block_k * size_of(p.dtype), algo == Algo::MmaTile ? 64 : 128);  // bytes
    EXPECT_EQ(plan.main_step().grid_x, plan.tiles_m * plan.tiles_n);
    EXPECT_EQ(plan.workspace_bytes, 0);
  }
}

TEST(TensorPlan, TheDefaultIsHopperBeyondSmallProblems) {
  const DeviceInfo d = device("h200");
  for (DType dtype : TENSOR_DTYPES) {
    EXPECT_EQ(make_plan(tensor_problem("nn", 4096, 4096, 4096, dtype), d).algo, Algo::Hopper);
    EXPECT_EQ(make_plan(tensor_problem("tn", 4095, 4095, 4095, dtype), d).algo, Algo::Hopper);
    EXPECT_EQ(make_plan(tensor_problem("nn", 4, 4, 4, dtype), d).algo, Algo::MmaTile);
  }
}

// No k has a result, zeros; no elements have none.
TEST(TensorPlan, EmptyProblems) {
  const DeviceInfo d = device("h200");
  for (DType dtype : TENSOR_DTYPES)
    for (const auto& [m, n, k] :
         {std::tuple{5, 7, 0}, {500, 700, 0}, {0, 5, 7}, {5, 0, 7}, {0, 0, 0}}) {
      const Problem p = tensor_problem("nn", m, n, k, dtype);
      for (Algo algo : supported_algos(p, d)) {
        const Plan plan = make_plan(p, d, algo);
        EXPECT_EQ(plan.algo, algo);
        EXPECT_GE(plan.workspace_bytes, 0);
        if (k == 0 && m > 0) {
          EXPECT_GT(plan.main_step().grid_x, 0) << name_of(algo);
        }
      }
      EXPECT_TRUE(supports(Algo::MmaTile, p, d) && supports(Algo::Hopper, p, d));
      EXPECT_TRUE(supports(make_plan(p, d).algo, p, d));
    }
  Problem none = tensor_problem("nn", 64, 128, 256);
  none.batch = 0;
  EXPECT_EQ(make_plan(none, d, Algo::MmaTile).main_step().grid_y, 0);
  EXPECT_TRUE(supports(make_plan(none, d).algo, none, d));
}

}  // namespace
}  // namespace tiled::test
