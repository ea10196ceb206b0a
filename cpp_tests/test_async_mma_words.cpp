// Rung async_mma's kernels in software, of fp32 as tf32 and of bytes, also with their sums kept
// whole: every tile, layout, alignment and store, as test_async_mma_values.cpp.
#include <gtest/gtest.h>

#include "async_mma_in_software.h"

namespace tiled {
namespace {

using namespace test;

constexpr int ALL = 8, ANY = 2;  // tiles; those that take any alignment

// Elements, and whether C has the sums as they are.
template <typename T, bool UNROUNDED>
struct Words {
  using Element = T;
  static constexpr bool unrounded = UNROUNDED;
};

template <typename W>
class AsyncMmaWords : public testing::Test {
 protected:
  using T = typename W::Element;

  // Either side of every product, with the tiles of its alignment.
  static void expect_right(Product p, int tiles) {
    p.unrounded = W::unrounded;
    std::string wrong;
    const int right = count_right_ways<T>(p, /*seed=*/1, [](const auto&) { return true; }, wrong);
    EXPECT_EQ(right, 2 * tiles) << wrong << "  (" << p.m << " x " << p.n << " x " << p.k << ")";
  }
  static Product sized(int64_t m, int64_t n, int64_t k, bool a_rows = true, bool b_rows = false) {
    return test::sized(m, n, k, a_rows, b_rows);
  }
};

using Elements = testing::Types<Words<float, false>, Words<unsigned char, false>,
                                Words<unsigned char, true>, Words<signed char, true>>;
TYPED_TEST_SUITE(AsyncMmaWords, Elements);

// A little more than a tile of each, in every layout; and K beyond the ring of stages, with a rest.
TYPED_TEST(AsyncMmaWords, EveryTileAndLayout) {
  constexpr int64_t LONG = sizeof(typename TypeParam::Element) == 4 ? 300 : 1104;
  for (const bool a_rows : {true, false})
    for (const bool b_rows : {true, false}) {
      const int tiles = a_rows && !b_rows ? ALL : ANY;
      this->expect_right(this->sized(136, 264, 80, a_rows, b_rows), tiles);
      this->expect_right(this->sized(36, 68, LONG, a_rows, b_rows), tiles);
    }
}

// Rows at every alignment, and neighbours that are not side by side: what comes by words, turned in
// registers, one by one, and past the last whole word.
TYPED_TEST(AsyncMmaWords, EveryAlignment) {
  for (const bool a_rows : {true, false})
    for (const bool b_rows : {true, false})
      for (const Lie& lie : {Lie{true, 1, 0}, Lie{true, 3, 1}, Lie{true, 2, 2}, Lie{true, 4, 4},
                             Lie{true, 0, 0, 3}, Lie{true, 1, 1, 2}}) {
        Product p = this->sized(66, 131, 75, a_rows, b_rows);
        p.a = p.b = lie;
        p.a.along_rows = a_rows, p.b.along_rows = b_rows;
        this->expect_right(p, ANY);
      }
  for (const int k : {100, 102, 101}) {
    const bool whole = k * sizeof(typename TypeParam::Element) % 16 == 0;
    this->expect_right(this->sized(70, 72, k), whole ? ALL : ANY);
  }
}

// Rows at multiples of 16 and 4 bytes that end between them: what is copied last exists in part.
TYPED_TEST(AsyncMmaWords, RowsThatEndWithinACopy) {
  constexpr int SIZE = sizeof(typename TypeParam::Element);
  for (const int bytes : {16, 4})
    for (int left = 1; left < bytes / SIZE; ++left) {
      Product p = this->sized(33, 70, 128 + left);
      const int rest = bytes / SIZE - left;
      p.a = {true, 0, rest, 1, rest}, p.b = {false, 0, rest, 1, rest};
      this->expect_right(p, bytes == 16 ? ALL : ANY);
    }
}

TYPED_TEST(AsyncMmaWords, SmallestSizes) {
  for (const int64_t m : {1, 2, 17})
    for (const int64_t n : {1, 3, 16})
      for (const int64_t k : {1, 2, 15, 65}) this->expect_right(this->sized(m, n, k), ANY);
  // One k, and rows of it that begin on 16 bytes: those of B, and of A where it is transposed.
  this->expect_right(this->sized(17, 32, 1, true, true), ANY);
  this->expect_right(this->sized(32, 48, 1, false, true), ANY);
}

TYPED_TEST(AsyncMmaWords, ResultBiasBatchAndNoK) {
  for (const Lie& lie : {Lie{true}, Lie{false}, Lie{true, 1, 3}, Lie{false, 3, 1}, Lie{true, 4, 4},
                         Lie{true, 0, 0, 2}}) {
    Product p = this->sized(133, 264, 16);
    p.c = lie;
    this->expect_right(p, ALL);
  }
  for (const Along along : {Along::N, Along::M}) {
    if (TypeParam::unrounded) break;  // sums take no bias
    Product p = this->sized(72, 136, 64);
    p.bias_along = along;
    this->expect_right(p, ALL);
  }
  Product batch = this->sized(40, 72, 144);
  batch.batch = 3;
  this->expect_right(batch, ALL);
  this->expect_right(this->sized(40, 72, 0), ALL);
}

// Eight segments and a short one, whose totals wait in the workspace, or whose sums do.
TYPED_TEST(AsyncMmaWords, ADeepK) {
  Product p = this->sized(17, 24, DEEP_K + 16);
  p.unrounded = TypeParam::unrounded;
  std::string wrong;
  const auto small = [](const AsyncMmaWay& way) {
    return async_mma_tile_name(way.tile) == "Async32x64";
  };
  EXPECT_EQ(count_right_ways<typename TypeParam::Element>(p, 1, small, wrong), 4) << wrong;
}

// The kernels are held to the sum of numbers with a sign.
TEST(AsyncMmaWordsReference, HasTheSign) {
  const signed char least = -128;
  const auto multiplied = [](auto byte) { return as_multiplied(Arithmetic::Fma, byte); };
  EXPECT_NE(multiplied(least), multiplied(static_cast<unsigned char>(least)));
  EXPECT_EQ(static_cast<int32_t>(multiplied(least) * multiplied(static_cast<signed char>(127))),
            -128 * 127);
}

}  // namespace
}  // namespace tiled
