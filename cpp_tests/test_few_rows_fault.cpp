// Rung few_rows without the wait for a stage to be filled, or without that until it has been read
// (TILED_MM_FAULT): the tests in software must see wrong values.
#include <gtest/gtest.h>

#include "few_rows_in_software.h"

namespace tiled::test {

TEST(FewRowsFault, IsNoticed) {
  for (const bool along_n : {false, true}) {
    const Product p = sized(3, 40, 16384, true, along_n);  // many laps of the ring
    std::string wrong;
    EXPECT_EQ(count_right_ways<__nv_bfloat16>(p, /*seed=*/1, wrong, 2), -1);
    EXPECT_EQ(count_right_ways<float>(p, /*seed=*/1, wrong, 2), -1);
  }
}

}  // namespace tiled::test
