// Rung tall without its waits for cp.async (TILED_MM_FAULT): the tests of its values in software
// must notice.
#include <gtest/gtest.h>

#include "tall_in_software.h"

namespace tiled {
namespace {

template <typename T>
class TallFault : public testing::Test {};
using Elements = testing::Types<__nv_bfloat16, float>;
TYPED_TEST_SUITE(TallFault, Elements);

TYPED_TEST(TallFault, IsNoticed) {
  const test::Product p = test::sized(1000, 16, 64);
  std::string wrong;
  const auto one = [](const TallWay& way) { return way.tile == 0 || way.tile == FIRST_CHAIN_TILE; };
  EXPECT_EQ(test::count_right_ways<TypeParam>(p, 1, one, wrong), -1);
  EXPECT_FALSE(wrong.empty());
}

}  // namespace
}  // namespace tiled
