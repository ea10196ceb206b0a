// What the tests of async_mma's kernels for words, not for 16-bit elements, have in common.
#pragma once

#include <gtest/gtest.h>

#include "async_mma_in_software.h"

namespace tiled::test {

constexpr int ALL = 8, ANY = 2;  // tiles; those that take any alignment

// UNROUNDED: C has the sums as they are.
template <typename T, bool UNROUNDED>
class AsyncMmaOfWords : public testing::Test {
 protected:
  // Either side of every product, with the tiles of its alignment.
  static void expect_right(Product p, int tiles) {
    p.unrounded = UNROUNDED;
    std::string wrong;
    const int right = count_right_ways<T>(p, /*seed=*/1, [](const auto&) { return true; }, wrong);
    EXPECT_EQ(right, 2 * tiles) << wrong << "  (" << p.m << " x " << p.n << " x " << p.k << ")";
  }
  static Product sized(int64_t m, int64_t n, int64_t k, bool a_rows = true, bool b_rows = false) {
    Product p{};
    p.batch = 1, p.m = m, p.n = n, p.k = k;
    p.a = {a_rows}, p.b = {b_rows}, p.c = {true};
    return p;
  }
};

}  // namespace tiled::test
