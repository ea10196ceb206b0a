// A test of the tests: each gate passes a right product and fails each of the ways to be wrong.
#include <gtest/gtest.h>

#include <cfenv>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "gates.h"

namespace tiled::test {
namespace {

// The lower `bits` of the fraction rounded away, to nearest even.
float drop_bits(float x, int bits) {
  uint32_t u;
  std::memcpy(&u, &x, sizeof u);
  u = (u + (1u << (bits - 1)) - 1 + (u >> bits & 1)) & (~0u << bits);
  std::memcpy(&x, &u, sizeof x);
  return x;
}
float to_tf32(float x) { return drop_bits(x, 13); }
float to_bfloat16(float x) { return drop_bits(x, 16); }
float same(float x) { return x; }

constexpr int64_t ROWS = 16, K = 1000;

// C[ROWS][ROWS] of normal data by fp32 sums, with inputs and partial sums passed through functions.
struct Products {
  std::vector<float> a, b;  // [ROWS][K], [K][ROWS]
  Expected expected;

  Products() : a(ROWS * K), b(K * ROWS), expected{{}, {}, K} {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& x : a) x = normal(random);
    for (float& x : b) x = normal(random);
    for (int64_t e = 0; e < ROWS * ROWS; ++e) {
      Wide value = 0, scale = 0;
      for (int64_t k = 0; k < K; ++k) {
        const Wide product = static_cast<Wide>(a[e / ROWS * K + k]) * b[k * ROWS + e % ROWS];
        value += product;
        scale += magnitude(product);
      }
      expected.value.push_back(value);
      expected.scale.push_back(scale);
    }
  }

  std::vector<double> multiply(const std::function<float(float)>& input,
                               const std::function<float(float)>& partial) const {
    std::vector<double> c;
    for (int64_t e = 0; e < ROWS * ROWS; ++e) {
      float sum = 0;
      for (int64_t k = 0; k < K; ++k)
        sum = partial(std::fma(input(a[e / ROWS * K + k]), input(b[k * ROWS + e % ROWS]), sum));
      c.push_back(sum);
    }
    return c;
  }
};

TEST(Gates, PassTheRightProduct) {
  const Products p;
  const auto c = p.multiply(same, same);
  EXPECT_EQ(gate_any(c, p.expected, FLOAT32), "");
  EXPECT_EQ(gate_normal(c, p.expected, FLOAT32), "");
}

TEST(Gates, FailZeros) {
  const Products p;
  const std::vector<double> zeros(ROWS * ROWS, 0.0);
  EXPECT_NE(gate_any(zeros, p.expected, FLOAT32), "");
  EXPECT_NE(gate_normal(zeros, p.expected, FLOAT32), "");
}

TEST(Gates, FailTf32Inputs) {
  const Products p;
  EXPECT_NE(gate_normal(p.multiply(to_tf32, same), p.expected, FLOAT32), "");
}

TEST(Gates, FailBfloat16PartialSums) {
  Products p;
  for (auto* operand : {&p.a, &p.b})
    for (float& x : *operand) x = to_bfloat16(x);
  Products exact = p;
  exact.expected.value.clear();
  for (int64_t e = 0; e < ROWS * ROWS; ++e) {
    Wide value = 0;
    for (int64_t k = 0; k < K; ++k)
      value += static_cast<Wide>(p.a[e / ROWS * K + k]) * p.b[k * ROWS + e % ROWS];
    exact.expected.value.push_back(value);
  }
  auto right = exact.multiply(same, same);
  for (double& x : right) x = to_bfloat16(static_cast<float>(x));
  EXPECT_EQ(gate_any(right, exact.expected, BFLOAT16), "");
  EXPECT_EQ(gate_normal(right, exact.expected, BFLOAT16), "");
  EXPECT_NE(gate_normal(exact.multiply(same, to_bfloat16), exact.expected, BFLOAT16), "");
}

TEST(Gates, FailOneBadElement) {
  const Products p;
  const auto right = p.multiply(same, same);
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity(), right[77] + 1}) {
    auto c = right;
    c[77] = bad;
    EXPECT_NE(gate_any(c, p.expected, FLOAT32), "") << bad;
    EXPECT_NE(gate_normal(c, p.expected, FLOAT32), "") << bad;
  }
}

// As tensor cores add: the errors lean towards zero.
TEST(Gates, FailTruncatedSums) {
  const Products p;
  const int mode = std::fegetround();
  std::fesetround(FE_TOWARDZERO);
  const auto c = p.multiply(same, same);
  std::fesetround(mode);
  EXPECT_NE(gate_normal(c, p.expected, FLOAT32), "");
}

// No element is far off, and only the mean shows that all lean to one side.
TEST(Gates, FailBias) {
  const Products p;
  auto c = p.multiply(same, same);
  for (size_t i = 0; i < c.size(); ++i) {
    const double scale = static_cast<double>(p.expected.scale[i]);
    c[i] -= std::copysign(0.7 * 0x1p-24 * scale, c[i]);
  }
  EXPECT_NE(gate_normal(c, p.expected, FLOAT32), "");
}

TEST(Gates, FailMissingElements) {
  const Products p;
  EXPECT_NE(gate_any({}, p.expected, FLOAT32), "");
  EXPECT_NE(gate_normal({}, p.expected, FLOAT32), "");
}

}  // namespace
}  // namespace tiled::test
