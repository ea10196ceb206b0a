// Rung fp16x3's product by mma.sync in software: every tile, bit for bit in the order that the
// kernel by wgmma has too, with the guard's marks.
#include <gtest/gtest.h>

#include "fp16x3_in_software.h"

namespace tiled {
namespace {

using test::Parts;

template <typename Tile>
class Fp16x3Async : public testing::Test {
 protected:
  static void expect_right(const Parts& p, uint32_t seed = 1) {
    EXPECT_EQ(test::wrong_of<Tile>(p, seed), "")
        << p.batch << " x " << p.m << " x " << p.n << " x " << p.k;
  }
  static Parts sized(int64_t m, int64_t n, int64_t k) {
    Parts p{};
    p.m = m, p.n = n, p.k = k;
    return p;
  }
};

using Tiles = testing::Types<X3Async128x128, X3Async128x64, X3Async64x64>;
TYPED_TEST_SUITE(Fp16x3Async, Tiles);

// More than a tile, exactly one, and less; K of whole steps and with every kind of rest.
TYPED_TEST(Fp16x3Async, SizesAndRests) {
  this->expect_right(this->sized(132, 140, 128));
  this->expect_right(this->sized(TypeParam::BLOCK_P, TypeParam::BLOCK_Q, 320));
  for (const int64_t k : {64, 65, 67, 72, 79, 191, 322}) this->expect_right(this->sized(67, 37, k));
  for (const int64_t m : {1, 17})
    for (const int64_t n : {1, 3, 33}) this->expect_right(this->sized(m, n, 100));
}

TYPED_TEST(Fp16x3Async, WhereTheResultLiesAndBatches) {
  for (const bool along_m : {false, true})
    for (const int gap : {0, 3, 4})
      for (const Activation activation : {Activation::None, Activation::Relu}) {
        Parts p = this->sized(68, 76, 130);
        p.c_along_m = along_m, p.c_gap = gap, p.activation = activation;
        p.batch = gap == 3 ? 3 : 1, p.shared_b = along_m;
        this->expect_right(p, 7);
      }
}

// Eight segments and a short one, whose totals wait in the workspace.
TYPED_TEST(Fp16x3Async, ADeepK) { this->expect_right(this->sized(17, 9, DEEP_K + 72)); }

}  // namespace
}  // namespace tiled
