// Rung few_rows' kernels by mma.sync and by chains in software: every tile and layout, several
// tiles a block, laps of the ring, and K that ends within a stage.
#include <gtest/gtest.h>

#include "few_rows_in_software.h"

namespace tiled {
namespace {

using namespace test;

Product of_few(int64_t m, int64_t n, int64_t k, bool b_rows, int batch = 1) {
  Product p = sized(m, n, k, true, b_rows);
  p.batch = batch;
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
      expect_right<__nv_bfloat16>(of_few(m, 104, 408, b_rows), 2);
      expect_right<__half>(of_few(m, 72, 136, b_rows), 8);
      if (m <= 16) expect_right<float>(of_few(m, 104, 132, b_rows), 2);
    }
}

TEST(FewRowsValues, FewStages) {
  for (const bool b_rows : {true, false})
    for (const int k : {8, 64, 128, 136, 256, 264, 384})
      for (const int multiprocessors : {1, 2}) {
        expect_right<__nv_bfloat16>(of_few(3, 104, k, b_rows), multiprocessors);
        expect_right<float>(of_few(3, 104, k / 2, b_rows), multiprocessors);
        expect_right<float>(of_few(1, 40, k / 2, b_rows, 3), multiprocessors);
      }
}

// More stages than the ring has, and segments.
TEST(FewRowsValues, LapsAndSegments) {
  for (const bool b_rows : {true, false}) {
    expect_right<__nv_bfloat16>(of_few(2, 72, 33024, b_rows), 1);
    expect_right<float>(of_few(1, 40, 33024, b_rows), 1);
    expect_right<float>(of_few(2, 40, 4224, b_rows, 2), 1);
  }
}

// Leaves that end within a stage, in one block one after the other, and shared out.
TEST(FewRowsValues, Trees) {
  for (const bool b_rows : {true, false})
    for (const int k : {32, 136, 272, 528, 1096})
      for (const int multiprocessors : {1, 2, 40}) {
        Product p = of_few(3, 72, k, b_rows, 2);
        p.leaf = k < 512 ? 16 : 128;
        expect_right<__nv_bfloat16>(p, multiprocessors);
        p.m = 1, p.batch = 1;
        expect_right<float>(p, multiprocessors);
      }
}

}  // namespace
}  // namespace tiled
