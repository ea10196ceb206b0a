// Rung few_rows' kernels by mma.sync and by chains in software: every tile and layout, several
// tiles a block, laps of the ring, and K that ends within a stage.
#include <gtest/gtest.h>

#include "few_rows_in_software.h"

namespace tiled {
namespace {

using namespace test;

Product sized(int64_t m, int64_t n, int64_t k, bool b_rows, int batch = 1) {
  Product p{};
  p.batch = batch, p.m = m, p.n = n, p.k = k;
  p.a = {true}, p.b = {b_rows}, p.c = {true};
  return p;
}

template <typename T>
void expect_right(const Product& p, int multiprocessors) {
  std::string wrong;
  EXPECT_GT(count_right_ways<T>(p, /*seed=*/1, wrong, multiprocessors), 0)
      << wrong << "  (" << p.m << " x " << p.n << " x " << p.k << ")";
}

TEST(FewRowsValues, EveryTileAndLayout) {
  for (const bool b_rows : {true, false})
    for (const int m : {1, 5, 8, 16, 23, 33, 64}) {
      expect_right<__nv_bfloat16>(sized(m, 104, 408, b_rows), 2);
      expect_right<__half>(sized(m, 72, 136, b_rows), 8);
      if (m <= 16) expect_right<float>(sized(m, 104, 132, b_rows), 2);
    }
}

TEST(FewRowsValues, FewStages) {
  for (const bool b_rows : {true, false})
    for (const int k : {8, 64, 128, 136, 256, 264, 384})
      for (const int multiprocessors : {1, 2}) {
        expect_right<__nv_bfloat16>(sized(3, 104, k, b_rows), multiprocessors);
        expect_right<float>(sized(3, 104, k / 2, b_rows), multiprocessors);
        expect_right<float>(sized(1, 40, k / 2, b_rows, 3), multiprocessors);
      }
}

// More stages than the ring has, and segments.
TEST(FewRowsValues, LapsAndSegments) {
  for (const bool b_rows : {true, false}) {
    expect_right<__nv_bfloat16>(sized(2, 72, 33024, b_rows), 1);
    expect_right<float>(sized(1, 40, 33024, b_rows), 1);
    expect_right<float>(sized(2, 40, 4224, b_rows, 2), 1);
  }
}

}  // namespace
}  // namespace tiled
