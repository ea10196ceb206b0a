// How register_tile and fp64's mma_tile read operands: by vectors where the layout and alignment
// allow, else by elements, or copied first; and where totals wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "planned.h"

namespace tiled::test {
namespace {

// The accesses that all of a rung's ways have in common.
Accesses all_read(Algo algo, const Problem& p, const char* name) {
  const std::vector<Plan> plans = plans_of(algo, p, device(name));
  EXPECT_FALSE(plans.empty());
  for (const Plan& plan : plans) {
    EXPECT_EQ(access_of(plan).a, access_of(plans[0]).a);
    EXPECT_EQ(access_of(plan).b, access_of(plans[0]).b);
  }
  return access_of(plans.at(0));
}
Access access_a(const Problem& p) { return all_read(Algo::RegisterTile, p, "t4").a; }
Access access_b(const Problem& p) { return all_read(Algo::RegisterTile, p, "t4").b; }

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

// Each operand for itself: by 16 bytes along either direction, or by elements.
TEST(Access, Fp64IsCopiedAsItLies) {
  const auto read = [](const char* layout, int64_t m, int64_t n, int64_t k) {
    return all_read(Algo::MmaTile, problem_of(layout, m, n, k, DType::Float64), "h200");
  };
  EXPECT_EQ(read("nn", 64, 66, 128).a, Access::AlongK);
  EXPECT_EQ(read("nn", 64, 66, 128).b, Access::AlongMN);
  EXPECT_EQ(read("tt", 64, 66, 128).a, Access::AlongMN);
  EXPECT_EQ(read("tt", 64, 66, 128).b, Access::AlongK);
  EXPECT_EQ(read("nn", 64, 65, 128).a, Access::AlongK);
  EXPECT_EQ(read("nn", 64, 65, 128).b, Access::Elements);  // rows of odd length
  EXPECT_EQ(read("nt", 64, 65, 127).b, Access::Elements);
  // A copy of 16 bytes wants its address aligned, even of one element.
  EXPECT_EQ(read("nn", 64, 64, 1).a, Access::Elements);
  EXPECT_EQ(read("tn", 1, 64, 64).a, Access::Elements);
}

// ---- fp32 by cp.async -----------------------------------------------------------------------

// The accesses of a way that transposes no operand first.
Accesses async_access(const Problem& p, const char* name = "h200") {
  for (const Plan& plan : plans_of(Algo::RegisterTile, p, device(name)))
    if (!register_of(plan).transpose_a && !register_of(plan).transpose_b) return access_of(plan);
  ADD_FAILURE() << "an operand is always transposed";
  return {};
}

// There are no vectors along k, and each operand is read as it can be.
TEST(AsyncAccess, VectorsOnlyAlongRowsThatAreAligned) {
  for (const std::string layout : {"nn", "nt", "tn", "tt"}) {
    Problem p = problem_of(layout, 64, 96, 128, DType::Float32);
    const Access a = layout[0] == 't' ? Access::AlongMN : Access::Elements;
    const Access b = layout[1] == 'n' ? Access::AlongMN : Access::Elements;
    EXPECT_EQ(async_access(p).a, a) << layout;
    EXPECT_EQ(async_access(p).b, b) << layout;
    p.a.alignment = 8;
    EXPECT_EQ(async_access(p).a, Access::Elements) << layout;
    EXPECT_EQ(async_access(p).b, b) << layout;
  }
  // A row of 130 fp32 is 520 bytes, 8 short of a multiple of 16.
  EXPECT_EQ(async_access(problem_of("tn", 64, 130, 128, DType::Float32)).b, Access::Elements);
}

TEST(AsyncAccess, StridesThatHaveNoVectors) {
  Problem p = problem_of("tn", 64, 64, 64, DType::Float32);
  p.a.col_stride = 1;  // a column starts one element after the column before
  p.a.alignment = alignment_of(nullptr, p.dtype, 1, 1, 0);
  EXPECT_EQ(async_access(p).a, Access::Elements);
  p.a.col_stride = 0, p.a.alignment = 16;  // one column, expanded
  EXPECT_EQ(async_access(p).a, Access::AlongMN);
  p.a.row_stride = 0;  // one number, expanded
  EXPECT_EQ(async_access(p).a, Access::Elements);
  p = problem_of(64, 64, 64, DType::Float32, 2);
  EXPECT_EQ(async_access(p).b, Access::AlongMN);
  p.b.batch_stride = 1, p.b.alignment = alignment_of(nullptr, p.dtype, 64, 1, 1);
  EXPECT_EQ(async_access(p).b, Access::Elements);
}

// A single row is no vector: its address needs no alignment.
TEST(AsyncAccess, DimensionsOfSizeOne) {
  Problem row = problem_of("tn", 1, 64, 64, DType::Float32);
  for (int64_t stride : {1, 77}) {
    row.a.row_stride = stride, row.a.col_stride = 77;
    EXPECT_EQ(async_access(row).a, Access::Elements);
  }
  Problem outer = problem_of("tn", 64, 64, 1, DType::Float32);
  outer.a.col_stride = 77;
  EXPECT_EQ(async_access(outer).a, Access::AlongMN);
  outer.a.row_stride = 77;
  EXPECT_EQ(async_access(outer).a, Access::Elements);
}

// An operand that does not come by vectors may be transposed first, and is then read by vectors.
// (Estimates say which is sooner.)
TEST(AsyncTranspose, OfWhatDoesNotComeByVectors) {
  for (const std::string layout : {"nn", "nt", "tn", "tt"}) {
    const bool a = layout[0] == 'n', b = layout[1] == 't';
    bool both = false;
    const Problem p = problem_of(layout, 500, 300, 700, DType::Float32);
    for (const Plan& plan : plans_of(Algo::RegisterTile, p, device("h200"))) {
      const RegisterTileWay way = register_of(plan);
      EXPECT_TRUE(way.async);
      EXPECT_LE(way.transpose_a, a) << layout;
      EXPECT_LE(way.transpose_b, b) << layout;
      EXPECT_EQ(access_of(plan).a, way.transpose_a || !a ? Access::AlongMN : Access::Elements);
      EXPECT_EQ(access_of(plan).b, way.transpose_b || !b ? Access::AlongMN : Access::Elements);
      EXPECT_EQ(plan.begin()->work == Work::Copy, way.transpose_a || way.transpose_b);
      both |= way.transpose_a == a && way.transpose_b == b;
    }
    EXPECT_TRUE(both) << layout;
  }
}

TEST(AsyncTranspose, OnlyOn90) {
  for (const Plan& plan :
       plans_of(Algo::RegisterTile, problem_of(4096, 4096, 4096), device("a100"))) {
    EXPECT_FALSE(register_of(plan).transpose_a);
    EXPECT_EQ(access_of(plan).a, Access::Elements);
    EXPECT_NE(plan.begin()->work, Work::Copy);
  }
}

// The workspace of the copies of A and of B, by ways of whole tiles.
int64_t copied_bytes(const Problem& p, bool a, bool b) {
  for (const Plan& plan : plans_of(Algo::RegisterTile, p, device("h200"))) {
    const RegisterTileWay way = register_of(plan);
    if (way.transpose_a == a && way.transpose_b == b && way.blocks == 0 && !way.split_k)
      return plan.workspace_bytes;
  }
  return -1;
}

// Rows of 4097 are 4128 apart, whole lines of 128 bytes; one matrix for a whole batch is
// copied once, others each; a deep K's totals are behind.
TEST(AsyncTranspose, BytesOfCopies) {
  EXPECT_EQ(copied_bytes(problem_of("nn", 2048, 2048, 2048, DType::Float32), true, false),
            2048 * 2048 * 4);
  EXPECT_EQ(copied_bytes(problem_of("nn", 4096, 4097, 4096, DType::Float32), true, true),
            4096 * 4096 * 4 + 4096 * 4128 * 4);
  Problem p = problem_of(1024, 1024, 1024, DType::Float32, 5);
  EXPECT_EQ(copied_bytes(p, true, false), 5 * 1024 * 1024 * 4);
  p.a.batch_stride = 0;
  EXPECT_EQ(copied_bytes(p, true, false), 1024 * 1024 * 4);
  EXPECT_EQ(copied_bytes(problem_of("nn", 4096, 2048, DEEP_K, DType::Float32), true, false),
            int64_t{4096} * (2048 + DEEP_K) * 4);
}

// A copy of an expanded or overlapping view could be larger than the memory.
TEST(AsyncTranspose, ViewsThatOverlapAreReadWhereTheyLie) {
  Problem p = problem_of(4096, 4096, 4096);
  const auto transposes = [&](int64_t row_stride, int64_t col_stride) {
    p.a.row_stride = row_stride, p.a.col_stride = col_stride, p.a.alignment = 4;
    return copied_bytes(p, true, false) > 0;
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

// ---- where totals wait ----------------------------------------------------------------------

// Where K is cut, the running total of every element of every tile in flight is in the
// workspace, or in split-K the sums of every segment. (No kernel would transpose A or B as they are
// here.)
TEST(Totals, OfTilesInFlightWhereKIsCut) {
  const DeviceInfo d = device("h200");
  for (DType dtype : ALL_DTYPES)
    for (Algo algo : {Algo::Naive, Algo::SharedTile32, Algo::RegisterTile, Algo::MmaTile}) {
      if (algo == Algo::MmaTile && dtype != DType::Float64) continue;
      const bool keeps = algo == Algo::RegisterTile || algo == Algo::MmaTile;
      for (const Plan& plan : plans_of(algo, problem_of("tn", 320, 208, DEEP_K - 1, dtype), d))
        if (!plan.demand.stream_k) {
          EXPECT_EQ(plan.workspace_bytes, 0);
        }
      Problem deep = problem_of("tn", 320, 208, DEEP_K, dtype);
      for (int64_t batch : {1, 7, 100000}) {
        deep.batch = batch;
        bool shared = false;
        for (const Plan& plan : plans_of(algo, deep, d)) {
          const int64_t tiles = plan.tiles_m * plan.tiles_n * std::min(batch, MAX_GRID_Y);
          const int64_t tile = plan.block_m * plan.block_n * accumulator_bytes(dtype);
          const int64_t sums = 8 * batch * deep.m * deep.n * accumulator_bytes(dtype);
          const bool shares = is_split_k(plan);
          EXPECT_EQ(plan.workspace_bytes, shares  ? sums
                                          : keeps ? tiles * tile
                                                  : 0)
              << name_of(dtype) << name_of(algo) << batch;
          shared |= shares;
        }
        EXPECT_EQ(shared, keeps) << name_of(dtype) << name_of(algo) << batch;
      }
    }
}

TEST(Totals, BeyondAllMemory) {
  // Nearly 2^31 tiles of 64 KiB, 65,535 times, and a copy of A.
  constexpr int64_t TILES_M = (1 << 15) - 1, TILES_N = 1 << 16;
  const Problem p = problem_of(TILES_M * 128, TILES_N * 128, DEEP_K, DType::Float32, 65535);
  const Plan plan =
      plan_of_tile(Algo::RegisterTile, "AsyncTile128x128 of copied A", p, device("h200"));
  EXPECT_EQ(plan.main_step().grid_x, TILES_M * TILES_N);
  EXPECT_EQ(plan.workspace_bytes, std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace tiled::test
