// Rung async_mma's kernels in software, of bytes whose sums C keeps whole: with a sign and without
// one, through every way to shared memory and every store.
#include "async_mma_words.h"

namespace tiled {
namespace {

using namespace test;

template <typename T>
class AsyncMmaInt32 : public AsyncMmaOfWords<T, /*UNROUNDED=*/true> {};

using Bytes = testing::Types<signed char, unsigned char>;
TYPED_TEST_SUITE(AsyncMmaInt32, Bytes);

TYPED_TEST(AsyncMmaInt32, EveryTileAndLayout) {
  for (const bool a_rows : {true, false})
    for (const bool b_rows : {true, false})
      this->expect_right(this->sized(136, 264, 80, a_rows, b_rows), a_rows && !b_rows ? ALL : ANY);
  this->expect_right(this->sized(36, 68, 1104), ALL);
}

// Bytes that come by words, turned in registers, one by one, and past the last whole word.
TYPED_TEST(AsyncMmaInt32, EveryAlignment) {
  for (const bool a_rows : {true, false})
    for (const bool b_rows : {true, false})
      for (const Lie& lie : {Lie{true, 1, 0}, Lie{true, 4, 4}, Lie{true, 0, 0, 3}}) {
        Product p = this->sized(66, 71, 75, a_rows, b_rows);
        p.a = p.b = lie;
        p.a.along_rows = a_rows, p.b.along_rows = b_rows;
        this->expect_right(p, ANY);
      }
  for (int left = 1; left < 4; ++left) {
    Product p = this->sized(33, 70, 128 + left);
    p.a = {true, 0, 4 - left, 1, 4 - left}, p.b = {false, 0, 4 - left, 1, 4 - left};
    this->expect_right(p, ANY);
  }
}

TYPED_TEST(AsyncMmaInt32, WhereTheResultLies) {
  for (const Lie& lie : {Lie{true}, Lie{false}, Lie{true, 1, 3}, Lie{false, 3, 1}, Lie{true, 4, 4},
                         Lie{true, 0, 0, 2}}) {
    Product p = this->sized(133, 264, 16);
    p.c = lie;
    this->expect_right(p, ALL);
  }
}

TYPED_TEST(AsyncMmaInt32, SmallestSizesBatchAndNoK) {
  for (const int64_t size : {1, 3, 17}) this->expect_right(this->sized(size, size + 2, size), ANY);
  Product batch = this->sized(40, 72, 144);
  batch.batch = 3;
  this->expect_right(batch, ALL);
  this->expect_right(this->sized(40, 72, 0), ALL);
}

// Eight segments and a short one, whose totals wait in the workspace, or whose sums do.
TYPED_TEST(AsyncMmaInt32, ADeepK) {
  Product p = this->sized(17, 24, DEEP_K + 16);
  p.unrounded = true;
  std::string wrong;
  const auto small = [](const AsyncMmaWay& way) {
    return async_mma_tile_name(way.tile) == "Async32x64";
  };
  EXPECT_EQ(count_right_ways<TypeParam>(p, 1, small, wrong), 4) << wrong;
}

// What the kernels are held to is the sum of numbers with a sign.
TEST(AsyncMmaInt32Reference, HasTheSign) {
  const signed char least = -128;
  const auto multiplied = [](auto byte) { return as_multiplied(Arithmetic::Fma, byte); };
  EXPECT_NE(multiplied(least), multiplied(static_cast<unsigned char>(least)));
  EXPECT_EQ(static_cast<int32_t>(multiplied(least) * multiplied(static_cast<signed char>(127))),
            -128 * 127);
}

}  // namespace
}  // namespace tiled
