// Rung async_mma without its waits for cp.async, or without its barriers (TILED_MM_FAULT): the
// tests of its values in software must notice.
#include <gtest/gtest.h>

#include "async_mma_in_software.h"

namespace tiled {
namespace {

template <typename T>
class AsyncMmaFault : public testing::Test {};
using Elements = testing::Types<__nv_bfloat16, float, unsigned char>;
TYPED_TEST_SUITE(AsyncMmaFault, Elements);

TYPED_TEST(AsyncMmaFault, IsNoticed) {
  const test::Product p = test::sized(72, 136, 1008, true, false);
  std::string wrong;
  const auto is_small = [](const AsyncMmaWay& way) {
    return async_mma_tile_name(way.tile) == "Async64x64";
  };
  EXPECT_EQ(test::count_right_ways<TypeParam>(p, 1, is_small, wrong), -1);
  EXPECT_FALSE(wrong.empty());
}

}  // namespace
}  // namespace tiled
