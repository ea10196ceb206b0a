// Rung async_mma's kernels in software: every tile, layout, alignment and store, beside exact sums.
#include <gtest/gtest.h>

#include "async_mma_in_software.h"

namespace tiled {
namespace {

using namespace test;

constexpr auto EVERY_WAY = [](const AsyncMmaWay&) { return true; };

template <typename T = __nv_bfloat16, typename Wanted>
void expect_right(const Product& p, int ways, Wanted wanted, const char* device = "h200") {
  std::string wrong;
  const int right = count_right_ways<T>(p, /*seed=*/1, wanted, wrong, device);
  EXPECT_EQ(right, ways) << wrong << "  (" << p.m << " x " << p.n << " x " << p.k << ")";
}

constexpr int ALL = 8, ANY = 2;  // tiles; those that take any alignment
constexpr int HELD = 2;          // those of 7.5

// A little more than a tile of each, in every layout, K beyond the ring of stages and with a rest.
TEST(AsyncMmaValues, EveryTileAndLayout) {
  for (const bool a_rows : {true, false})
    for (const bool b_rows : {true, false}) {
      // A product that is contiguous along k and n, or along m and k, has one side to stand on;
      // others have two.
      const int sides = a_rows == b_rows ? 1 : 2;
      expect_right(sized(136, 264, 584, a_rows, b_rows), ALL * sides, EVERY_WAY);
      expect_right<__half>(sized(136, 264, 72, a_rows, b_rows), ALL * sides, EVERY_WAY);
    }
}

// Rows at every multiple of two bytes, and neighbours that are not side by side.
TEST(AsyncMmaValues, EveryAlignment) {
  for (const bool a_rows : {true, false})
    for (const bool b_rows : {true, false}) {
      const int sides = a_rows == b_rows ? 1 : 2;
      for (const Lie& lie : {Lie{true, 1, 0}, Lie{true, 3, 1}, Lie{true, 2, 2}, Lie{true, 4, 4},
                             Lie{true, 0, 0, 3}, Lie{true, 1, 1, 2}}) {
        Product p = sized(131, 137, 203, a_rows, b_rows);
        p.a = p.b = lie;
        p.a.along_rows = a_rows, p.b.along_rows = b_rows;
        const bool apart = lie.apart > 1;  // then it counts as contiguous along k
        std::string wrong;
        const int right = count_right_ways<__nv_bfloat16>(p, 7, EVERY_WAY, wrong);
        EXPECT_TRUE(right == ANY * sides || (apart && right == ANY * 2))
            << right << ' ' << wrong << " before " << lie.before << " after " << lie.after;
      }
    }
  // Pitches of whole 8 and 4 bytes, and one operand aligned beside one that is not.
  for (const int k : {100, 102, 101}) expect_right(sized(70, 72, k), ANY, EVERY_WAY);
}

// Rows at multiples of 16, 8 and 4 bytes that end between them: what is copied last exists in part.
TEST(AsyncMmaValues, RowsThatEndWithinACopy) {
  for (const bool a_rows : {true, false})
    for (const bool b_rows : {true, false}) {
      const int sides = a_rows == b_rows ? 1 : 2;
      for (const int whole : {8, 4, 2})  // elements
        for (int left = 1; left < whole; ++left) {
          Product p = sized(64 + left, 72 + left, 128 + left, a_rows, b_rows);
          p.a = {a_rows, 0, whole - left, 1, whole - left};
          p.b = {b_rows, 0, whole - left, 1, whole - left};
          expect_right(p, (whole == 8 ? ALL : ANY) * sides, EVERY_WAY);
        }
    }
}

TEST(AsyncMmaValues, SmallestSizes) {
  for (const int64_t m : {1, 2, 17})
    for (const int64_t n : {1, 3, 16})
      for (const int64_t k : {1, 2, 15, 65}) {
        std::string wrong;
        EXPECT_GT(count_right_ways<__nv_bfloat16>(sized(m, n, k), 3, EVERY_WAY, wrong), 0)
            << wrong << ' ' << m << ' ' << n << ' ' << k;
      }
}

// Column-major, unaligned, with gaps, strided, and fp32.
TEST(AsyncMmaValues, WhereTheResultLies) {
  for (const Lie& lie : {Lie{true}, Lie{false}, Lie{true, 1, 3}, Lie{false, 3, 1}, Lie{true, 2, 2},
                         Lie{true, 8, 8}, Lie{true, 0, 0, 2}})
    for (const bool fp32 : {false, true})
      for (const bool b_rows : {false, true}) {
        Product p = sized(133, 264, 40, true, b_rows);
        p.c = lie, p.unrounded = fp32;
        // Either side, in turn.
        expect_right(p, ALL, [&](const AsyncMmaWay& way) {
          return b_rows || way.swap_ab == (lie.before % 2 == 1);
        });
      }
}

TEST(AsyncMmaValues, EpilogueBatchAndNoK) {
  for (const Along along : {Along::N, Along::M})
    for (const Activation activation : {Activation::None, Activation::Relu, Activation::Silu}) {
      Product p = sized(72, 136, 64, true, false);
      p.bias_along = along, p.activation = activation;
      expect_right(p, ALL * 2, EVERY_WAY);
    }
  Product batch = sized(40, 72, 136);
  batch.batch = 3;
  expect_right(batch, ALL, EVERY_WAY);
  expect_right(sized(40, 72, 0), ALL, EVERY_WAY);
}

// Eight segments and a short one, whose totals wait in the workspace, or whose sums do.
TEST(AsyncMmaValues, ADeepK) {
  Product p = sized(40, 72, DEEP_K + 8);
  expect_right(
      p, 2, [](const AsyncMmaWay& way) { return async_mma_tile_name(way.tile) == "Async32x64"; });
}

// Compute capability 7.5: fp16, held in registers on its way. Layouts, alignments, neighbours that
// are not side by side, edges, K below a stage and beyond two, no K, batches and a deep K.
TEST(AsyncMmaOf75, EveryTileLayoutAndAlignment) {
  for (const bool a_rows : {true, false})
    for (const bool b_rows : {true, false}) {
      const int ways = HELD * (a_rows == b_rows ? 1 : 2);
      for (const int k : {264, 72, 8})
        expect_right<__half>(sized(136, 200, k, a_rows, b_rows), ways, EVERY_WAY, "t4");
      for (const Lie& lie : {Lie{true, 1, 0}, Lie{true, 3, 1}, Lie{true, 2, 2}, Lie{true, 4, 4},
                             Lie{true, 0, 0, 3}}) {
        Product p = sized(131, 137, 203, a_rows, b_rows);
        p.a = p.b = lie;
        p.a.along_rows = a_rows, p.b.along_rows = b_rows;
        std::string wrong;
        const int right = count_right_ways<__half>(p, 7, EVERY_WAY, wrong, "t4");
        EXPECT_TRUE(right == ways || (lie.apart > 1 && right == HELD * 2)) << right << ' ' << wrong;
      }
    }
}

TEST(AsyncMmaOf75, EdgesResultsAndSegments) {
  for (const int64_t size : {1, 3, 17, 65})
    expect_right<__half>(sized(size, size + 2, size), HELD, EVERY_WAY, "t4");
  expect_right<__half>(sized(40, 72, 0), HELD, EVERY_WAY, "t4");
  for (const Lie& lie : {Lie{true}, Lie{false}, Lie{true, 1, 3}, Lie{true, 0, 0, 2}}) {
    Product p = sized(133, 200, 40);
    p.batch = 2, p.c = lie, p.bias_along = Along::N, p.activation = Activation::Relu;
    expect_right<__half>(p, HELD, EVERY_WAY, "t4");
    p.unrounded = true;
    expect_right<__half>(p, HELD, EVERY_WAY, "t4");
  }
  expect_right<__half>(
      sized(40, 72, DEEP_K + 8), 2,
      [](const AsyncMmaWay& way) { return async_mma_tile_name(way.tile) == "RegisterStaged64x64"; },
      "t4");
}

}  // namespace
}  // namespace tiled
