// bf16 and 8-bit integers by the levels' own instructions, vdpbf16ps, vpdpbusd and those of AMX:
// words of 2 or 4 elements of k, from every layout and around every edge of their tiles. Skipped,
// with a line that says so, on a CPU that lacks them.
#include <cmath>
#include <string>

#include "on_level.h"

namespace tiled::test {
namespace {

constexpr DType BF16 = DType::BFloat16;

std::vector<const cpu::Level*> levels_with_pairs() {
  std::vector<const cpu::Level*> found;
  for (const cpu::Level* level : cpu::available_levels())
    if (level->pairs != nullptr) found.push_back(level);
  return found;
}

class Pairs : public OnLevel {
 protected:
  // The three loops are of the same instruction for bf16; those of bytes' sums know no words.
  void expect_same(DType dtype, int64_t m, int64_t n, int64_t k, Layout layout_a, Layout layout_b,
                   Layout layout_c = Layout::Rows, bool unrounded = false) {
    OnLevel::expect_same(dtype, 1, m, n, k, layout_a, layout_b, layout_c, unrounded);
  }

  // a[1][k] times b[k][1], unrounded.
  float dot(const std::vector<float>& a, const std::vector<float>& b) {
    const int64_t k = static_cast<int64_t>(a.size());
    Matrix x(BF16, 1, 1, k, Layout::Rows), y(BF16, 1, k, 1, Layout::Rows);
    Matrix c(DType::Float32, 1, 1, 1, Layout::Rows);
    for (int64_t i = 0; i < k; ++i) {
      std::memcpy(x.at(0, 0, i), reinterpret_cast<const char*>(&a[i]) + 2, 2);
      std::memcpy(y.at(0, i, 0), reinterpret_cast<const char*>(&b[i]) + 2, 2);
    }
    blocked(x, y, c);
    return *reinterpret_cast<float*>(c.data);
  }
};

constexpr DType BYWORDS[] = {BF16, DType::Int8, DType::UInt8};
constexpr Layout LAYOUTS[] = {Layout::Rows, Layout::Columns, Layout::PaddedRows,
                              Layout::PaddedColumns, Layout::EveryOther};

TEST_P(Pairs, EveryLayout) {
  for (const DType dtype : BYWORDS)
    for (const Layout a : LAYOUTS)
      for (const Layout b : LAYOUTS)
        for (const auto& [m, n, k] : {std::array{1, 40, 70},
                                      {3, 33, 65},
                                      {16, 48, 64},
                                      {18, 70, 96},
                                      {37, 50, 35},
                                      {50, 1, 64}})
          expect_same(dtype, m, n, k, a, b);
}

TEST_P(Pairs, EveryEdgeOfTheTile) {
  for (const DType dtype : BYWORDS)
    for (const int64_t m : {1, 2, 12, 13, 15, 16, 17, 24, 25, 32, 33})
      for (const int64_t n : {1, 15, 16, 17, 31, 32, 33, 63})
        for (const int64_t k : {1, 2, 3, 4, 5, 31, 32, 33, 34, 63, 64, 65, 66, 67})
          expect_same(dtype, m, n, k, Layout::Rows, Layout::Rows);
}

TEST_P(Pairs, BlocksAndSegmentsOfK) {
  for (const DType dtype : BYWORDS)
    for (const int64_t k : {1030, 1031, 4095, 4096, 4097, 4129, 8200, 32767, 32768, 36870})
      for (const Layout b : {Layout::Rows, Layout::Columns}) {
        expect_same(dtype, 1, 17, k, Layout::Rows, b);
        expect_same(dtype, 34, 20, k, Layout::Rows, b);
        expect_same(dtype, 18, 50, k, Layout::Rows, b);
        expect_same(dtype, 19, 18, k, Layout::Columns, b, Layout::Columns, dtype == BF16);
      }
}

TEST_P(Pairs, SlicesKeepTheirBits) { expect_slices_keep_their_bits(BF16, 70, 90, 333); }

// As C keeps them whole.
TEST_P(Pairs, SumsOfBytes) {
  for (const DType dtype : {DType::Int8, DType::UInt8}) {
    for (const Layout a : LAYOUTS)
      for (const Layout b : LAYOUTS)
        for (const Layout c : {Layout::Rows, Layout::Columns, Layout::EveryOther})
          for (const auto& [m, n, k] :
               {std::array{1, 40, 72}, {3, 33, 65}, {12, 48, 64}, {13, 70, 96}, {50, 1, 64}})
            expect_same(dtype, m, n, k, a, b, c, true);
    for (const int64_t m : {1, 2, 8, 9, 11, 12, 13, 16, 17, 24, 25, 32, 33})
      for (const int64_t n : {1, 15, 16, 17, 31, 32, 33, 63})
        for (const int64_t k : {1, 3, 4, 5, 63, 64, 68, 1031, 4096})
          for (const Layout b : {Layout::Rows, Layout::Columns})
            expect_same(dtype, m, n, k, Layout::Rows, b, Layout::Rows, true);
    for (const int64_t k : {4100, 32767, 36872})
      for (const Layout b : {Layout::Rows, Layout::Columns})
        for (const int64_t m : {1, 7, 34})
          expect_same(dtype, m, 50, k, Layout::Rows, b, Layout::Rows, true);
  }
}

// As torch.mm on such a CPU: subnormals in 16 bits are zeros, and so are sums below 2^-126.
TEST_P(Pairs, SubnormalsAreZeros) {
  EXPECT_EQ(dot({0x1p-127f}, {1}), 0);
  EXPECT_EQ(dot({1}, {0x1p-127f}), 0);
  EXPECT_EQ(dot({0x1p-127f}, {0x1p127f}), 0);
  EXPECT_EQ(dot({0x1p-126f}, {1}), 0x1p-126f);
  EXPECT_EQ(dot({0x1p-70f}, {0x1p-70f}), 0);
  // A sum that passes through the range below 2^-126 loses what is there.
  EXPECT_EQ(dot({0x1.8p-126f, 0, -0x1p-126f}, {1, 0, 1}), 0);
}

TEST_P(Pairs, ZerosArePositive) {
  EXPECT_FALSE(std::signbit(dot({-0x1p-70f}, {0x1p-70f})));
  EXPECT_FALSE(std::signbit(dot({-0.f}, {1})));
  EXPECT_FALSE(std::signbit(dot({-0x1.8p-126f, 0, 0x1p-126f}, {1, 0, 1})));
}

TEST_P(Pairs, SpecialValues) {
  EXPECT_EQ(dot({INFINITY, 1}, {1, 1}), INFINITY);
  EXPECT_TRUE(std::isnan(dot({INFINITY, 1}, {0, 1})));
  EXPECT_TRUE(std::isnan(dot({INFINITY, -INFINITY}, {1, 1})));
  EXPECT_TRUE(std::isnan(dot({NAN}, {0})));
  EXPECT_EQ(dot({0x1p100f, 0x1p100f}, {0x1p27f, 0x1p27f}), INFINITY);
}

// The order that amx.cpp states: 16 even products, then 16 odd ones, then both to the sum before.
TEST_P(Pairs, TilesSumEvenAndOddApart) {
  if (std::string(GetParam()->name) != "amx") GTEST_SKIP() << "level amx only";
  std::vector<float> ones(64, 1.f), a(64, 0.f);
  a[0] = 0x1p24f;
  for (int k = 1; k < 64; ++k) a[k] = 1;
  // Even: 2^24, which swallows 15 ones. Odd: 16. The next 32: 16 and 16.
  EXPECT_EQ(dot(a, ones), 0x1p24f + 16 + 32);
}

TEST(PairLevels, AreHere) {
  const size_t count = levels_with_pairs().size();
  if (count == 0) GTEST_SKIP() << "this CPU has neither level avx512_bf16 nor amx: not tested";
  if (count == 1) GTEST_SKIP() << "this CPU does not have level amx: not tested";
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Pairs);
INSTANTIATE_TEST_SUITE_P(Levels, Pairs, testing::ValuesIn(levels_with_pairs()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace tiled::test
