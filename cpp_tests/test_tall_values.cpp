// Rung tall's kernels in software: every tile, layout, alignment and store, beside exact sums.
#include <gtest/gtest.h>

#include "tall_in_software.h"

namespace tiled {
namespace {

using namespace test;

constexpr int TENSOR_TILES = TensorTallTiles::COUNT, CHAIN_TILES = ChainTallTiles::COUNT;
constexpr auto EVERY_WAY = [](const TallWay&) { return true; };

template <typename T, typename Wanted>
void expect_right(const Product& p, int ways, Wanted wanted, int multiprocessors = 2) {
  std::string wrong;
  const int right = count_right_ways<T>(p, /*seed=*/1, wanted, wrong, multiprocessors);
  EXPECT_EQ(right, ways) << wrong << "  (" << p.m << " x " << p.n << " x " << p.k << ")";
}
// By every tile, as often as a tile has ways.
void expect_both_right(const Product& p, int ways_of_a_tile = 1) {
  expect_right<__nv_bfloat16>(p, ways_of_a_tile * TENSOR_TILES, EVERY_WAY);
  if (!p.unrounded) expect_right<float>(p, ways_of_a_tile * CHAIN_TILES, EVERY_WAY);
}

// Several strips a warp with a rest, in every layout and on either side.
TEST(TallValues, EveryTileAndLayout) {
  for (const bool a_rows : {true, false})
    for (const bool b_rows : {true, false}) {
      expect_both_right(sized(1352, 24, 40, a_rows, b_rows));
      expect_both_right(sized(24, 1352, 40, a_rows, b_rows));
      expect_right<__half>(sized(328, 72, 72, a_rows, b_rows), TENSOR_TILES, EVERY_WAY);
    }
}

// Rows at every multiple of an element, and neighbours that are not side by side.
TEST(TallValues, EveryAlignment) {
  for (const bool rows : {true, false})
    for (const Lie& lie : {Lie{true, 1, 0}, Lie{true, 3, 1}, Lie{true, 2, 2}, Lie{true, 4, 4},
                           Lie{true, 0, 5}, Lie{true, 0, 0, 3}, Lie{true, 1, 1, 2}}) {
      Product p = sized(333, 19, 43);
      p.a = p.b = lie, p.a.along_rows = p.b.along_rows = rows;
      expect_both_right(p);
    }
  for (const int k : {1, 2, 3, 4, 7, 9, 16, 24, 33, 100}) {
    expect_both_right(sized(139, 7, k));
    expect_both_right(sized(139, 16, k, false));
  }
}

// Aligned rows that end between multiples of 16 bytes, and no memory behind the last.
TEST(TallValues, RowsThatEndWithinACopy) {
  for (const bool a_rows : {true, false})
    for (int left = 1; left < 8; ++left) {
      Product p = sized(64 + left, 16 + left, 40 + left, a_rows);
      p.a = {a_rows, 0, 8 - left, 1, 8 - left};
      p.b = {true, 0, 8 - left, 1, 8 - left};
      expect_both_right(p);
    }
}

TEST(TallValues, SmallestSizes) {
  for (const int64_t m : {1, 2, 17})
    for (const int64_t n : {1, 3, 16})
      for (const int64_t k : {1, 2, 15, 65}) expect_both_right(sized(m, n, k), m == n ? 2 : 1);
}

// Row-major, column-major, unaligned, with gaps, strided, and fp32.
TEST(TallValues, WhereTheResultLies) {
  for (const Lie& lie : {Lie{true}, Lie{false}, Lie{true, 1, 3}, Lie{false, 3, 1}, Lie{true, 2, 2},
                         Lie{true, 8, 8}, Lie{false, 8, 8}, Lie{true, 0, 0, 2}})
    for (const bool fp32 : {false, true})
      for (const auto& [m, n] : {std::pair(300, 72), std::pair(301, 37), std::pair(72, 304)}) {
        Product p = sized(m, n, 24, m < 301);
        p.c = lie, p.unrounded = fp32;
        expect_both_right(p);
      }
}

TEST(TallValues, EpilogueBatchAndNoK) {
  for (const Along along : {Along::N, Along::M})
    for (const Activation activation : {Activation::None, Activation::Relu, Activation::Silu})
      for (const int n : {24, 7}) {
        Product p = sized(200, n, 40);
        p.bias_along = along, p.activation = activation;
        expect_both_right(p);
      }
  Product batch = sized(300, 24, 40);
  batch.batch = 3;
  expect_both_right(batch);
  expect_both_right(sized(40, 24, 0), 0);  // zeros, by another kernel
}

// A K that the panel has in parts, with and without segments, whose totals wait in the workspace.
TEST(TallValues, ADeepK) {
  const auto in_parts_of = [](int32_t most) {
    return [most](TallWay& way) {
      way.panel_k = std::min(way.panel_k, most);
      return true;
    };
  };
  for (const int64_t n : {16, 136}) {
    expect_right<__nv_bfloat16>(sized(600, n, 400), TENSOR_TILES, in_parts_of(128), 1);
    expect_right<float>(sized(600, n, 200), CHAIN_TILES, in_parts_of(64), 1);
  }
  const auto first = [](const TallWay& way) {
    return way.tile == 0 || way.tile == FIRST_CHAIN_TILE;
  };
  expect_right<__nv_bfloat16>(sized(40, 17, DEEP_K + 8), 1, first);
  expect_right<float>(sized(40, 17, DEEP_K + 8), 1, first);
}

}  // namespace
}  // namespace tiled
