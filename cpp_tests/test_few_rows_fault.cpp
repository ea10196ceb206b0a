// Rung few_rows without the wait for a stage to be filled, or without that until it has been read
// (TILED_MM_FAULT): the tests in software must see wrong values.
#include <gtest/gtest.h>

#include "few_rows_in_software.h"

namespace tiled::test {

TEST(FewRowsFault, IsNoticed) {
  for (const bool along_n : {false, true}) {
    Product p{};
    p.batch = 1, p.m = 3, p.n = 40, p.k = 16384;  // many laps of the ring
    p.a = {true}, p.b = {along_n}, p.c = {true};
    std::string wrong;
    EXPECT_EQ(count_right_ways<__nv_bfloat16>(p, /*seed=*/1, wrong, 2), -1);
    EXPECT_EQ(count_right_ways<float>(p, /*seed=*/1, wrong, 2), -1);
  }
}

}  // namespace tiled::test
