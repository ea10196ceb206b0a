// Rung fp16x3's product by mma.sync without its waits for cp.async, or without its barriers
// (TILED_MM_FAULT): the tests in software must notice.
#include <gtest/gtest.h>

#include "fp16x3_in_software.h"

namespace tiled {
namespace {

TEST(Fp16x3AsyncFault, IsNoticed) {
  test::Parts p{};
  p.m = 68, p.n = 132, p.k = 640;
  EXPECT_NE(test::wrong_of<X3Async64x64>(p, 1), "");
  EXPECT_NE(test::wrong_of<X3Async128x128>(p, 1), "");
}

}  // namespace
}  // namespace tiled
