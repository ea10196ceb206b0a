// Rung async_mma without its barriers: the tests of its values in software must notice.
#define TILED_MM_FAULT NoEmptyWait
#include <gtest/gtest.h>

#include "async_mma_in_software.h"

namespace tiled {
namespace {

TEST(AsyncMmaFault, NoEmptyWaitIsNoticed) {
  test::Product p{};
  p.batch = 1, p.m = 72, p.n = 136, p.k = 1000;
  p.a = p.b = p.c = {true};
  std::string wrong;
  EXPECT_EQ(test::count_right_ways<__nv_bfloat16>(
                p, 1, [](const AsyncMmaWay& way) { return async_mma_tile(way.tile).block_m == 64; },
                wrong),
            -1);
  EXPECT_FALSE(wrong.empty());
}

}  // namespace
}  // namespace tiled
