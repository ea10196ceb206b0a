// Scaled products on the CPU, at every instruction level of this machine: fp8's values, the order
// of core/scales.h step by step, and memory that ends where the operands do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/scales.h"
#include "cpu/fp8.h"
#include "cpu/scaled.h"
#include "matrices.h"

namespace tiled::test {
namespace {

constexpr cpu::ParallelFor THREE = {[](int64_t count, cpu::Body body, void* state) {
                                      for (int64_t i = count; i-- > 0;) body(state, i, i + 1);
                                    },
                                    3};

constexpr DType E4M3 = DType::Float8E4M3FN, E5M2 = DType::Float8E5M2;

TEST(Fp8, ValuesAreThoseOfTheFormats) {
  const cpu::Fp8Table &e4m3 = cpu::floats_of(E4M3), &e5m2 = cpu::floats_of(E5M2);
  EXPECT_EQ(e4m3[0x01], 0x1p-9f);
  EXPECT_EQ(e4m3[0x08], 0x1p-6f);
  EXPECT_EQ(e4m3[0x38], 1.f);
  EXPECT_EQ(e4m3[0xbc], -1.5f);
  EXPECT_EQ(e4m3[0x7e], 448.f);
  EXPECT_TRUE(std::isnan(e4m3[0x7f]) && std::isnan(e4m3[0xff]));
  EXPECT_EQ(e5m2[0x01], 0x1p-16f);
  EXPECT_EQ(e5m2[0x04], 0x1p-14f);
  EXPECT_EQ(e5m2[0x3c], 1.f);
  EXPECT_EQ(e5m2[0x7b], 57344.f);
  EXPECT_EQ(e5m2[0xfc], -INFINITY);
  for (int nan : {0x7d, 0x7e, 0x7f, 0xfd}) EXPECT_TRUE(std::isnan(e5m2[nan]));
  for (int i = 0; i < 128; ++i) {
    EXPECT_TRUE(std::signbit(e4m3[128 + i]) || i == 0x7f);
    if (i > 0 && i < 0x7f) EXPECT_GT(e4m3[i], e4m3[i - 1]);
  }
}

TEST(Fp8, IsRoundedToNearestWithTiesToEven) {
  for (const DType dtype : {E4M3, E5M2}) {
    const cpu::Fp8Table& values = cpu::floats_of(dtype);
    const int last = dtype == E4M3 ? 0x7e : 0x7b;
    for (int i = 0; i < last; ++i) {
      const float middle = (values[i] + values[i + 1]) / 2;
      for (const float sign : {1.f, -1.f}) {
        const int bit = sign < 0 ? 0x80 : 0;
        const auto rounded = [&](float x) { return cpu::rounded_to_fp8(sign * x, dtype) - bit; };
        EXPECT_EQ(rounded(values[i]), i);
        EXPECT_EQ(rounded(middle), i + i % 2) << i;
        EXPECT_EQ(rounded(std::nextafter(middle, 0.f)), i);
        EXPECT_EQ(rounded(std::nextafter(middle, INFINITY)), i + 1);
      }
    }
    EXPECT_EQ(cpu::rounded_to_fp8(values[last], dtype), last);
    EXPECT_EQ(cpu::rounded_to_fp8(NAN, dtype), 0x7f);
    EXPECT_EQ(cpu::rounded_to_fp8(-NAN, dtype), 0x7f);
  }
}

TEST(Scales, AreFoundByIndex) {
  OperandScales scales;
  scales.row_stride = 10, scales.block_stride = 3;
  scales.scaling = Scaling::Block1x128;
  EXPECT_EQ(scale_offset(scales, 130, 2), 1306);
  scales.scaling = Scaling::Block128x128;
  EXPECT_EQ(scale_offset(scales, 130, 2), 16);
  EXPECT_EQ(scale_offset(scales, 127, 0), 0);
  EXPECT_TRUE(is_blockwise(Scales{scales, {}, E4M3, false}));
  EXPECT_FALSE(is_blockwise(Scaling::Rowwise));
}

// Finite fp8, and scales of 1.0 to 2.0, in the place of an operand's rows and blocks.
struct Operands {
  Matrix a, b;
  std::vector<float> scale_a, scale_b;

  Operands(DType of_a, DType of_b, int64_t m, int64_t n, int64_t k, Layout layout)
      : a(of_a, 1, m, k, layout),
        b(of_b, 1, k, n, layout),
        scale_a(m * (k / 128 + 1)),
        scale_b(n * (k / 128 + 1)) {
    std::mt19937 random(7);
    for (Matrix* x : {&a, &b})
      for (int64_t i = 0; i < x->rows; ++i)
        for (int64_t j = 0; j < x->cols; ++j)
          at(*x, i, j) = static_cast<uint8_t>((random() & 0x80) | (0x28 + random() % 0x18));
    std::uniform_real_distribution<float> real(1, 2);
    for (float& s : scale_a) s = real(random);
    for (float& s : scale_b) s = real(random);
  }

  static uint8_t& at(const Matrix& x, int64_t i, int64_t j) {
    return *reinterpret_cast<uint8_t*>(x.data + i * x.strides.row + j * x.strides.col);
  }
};

OperandScales scales_of(const std::vector<float>& data, Scaling scaling, int64_t blocks) {
  OperandScales scales{data.data(), 0, 0, 0, scaling};
  if (scaling != Scaling::Tensorwise) scales.row_stride = is_blockwise(scaling) ? blocks : 1;
  if (is_blockwise(scaling)) scales.block_stride = 1;
  return scales;
}

class ScaledProducts : public testing::TestWithParam<const cpu::Level*> {};

TEST_P(ScaledProducts, HaveTheOrderOfTheContract) {
  const bool fused = GetParam()->chains->fused;
  const auto add = [&](float x, float y, float sum) {
    volatile float product = x * y;  // rounded by itself
    return fused ? std::fma(x, y, sum) : product + sum;
  };
  for (const Layout layout : {Layout::Rows, Layout::Columns, Layout::EveryOther})
    for (const Scaling scaling :
         {Scaling::Tensorwise, Scaling::Rowwise, Scaling::Block1x128, Scaling::Block128x128}) {
      const int64_t m = 131, n = 77, k = 300, blocks = k / 128 + 1;
      const Operands x(E4M3, E5M2, m, n, k, layout);
      const Matrix c(DType::Float32, 1, m, n, Layout::Rows);
      Problem p = problem_of(x.a, x.b, c);
      p.arithmetic = Arithmetic::Fp8;
      p.scales = {scales_of(x.scale_a, scaling, blocks), scales_of(x.scale_b, scaling, blocks),
                  E5M2, false};
      cpu::mm_scaled(p, THREE, *GetParam());
      for (int64_t i = 0; i < m; i += 13)
        for (int64_t j = 0; j < n; ++j) {
          float total = 0, scale = 0;
          for (int64_t block = 0; block < blocks; ++block) {
            float sum = 0;
            for (int64_t q = 128 * block; q < std::min(k, 128 * (block + 1)); ++q)
              sum = add(cpu::floats_of(E4M3)[Operands::at(x.a, i, q)],
                        cpu::floats_of(E5M2)[Operands::at(x.b, q, j)], sum);
            const int64_t at = is_blockwise(scaling) ? block : 0;
            scale = x.scale_a[scale_offset(p.scales.a, i, at)] *
                    x.scale_b[scale_offset(p.scales.b, j, at)];
            total = is_blockwise(scaling) ? add(scale, sum, total) : total + sum;
          }
          if (!is_blockwise(scaling)) total = scale * total;
          float found;
          std::memcpy(&found, c.data + (i * c.strides.row + j) * 4, 4);
          ASSERT_EQ(found, total) << i << ", " << j;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Levels, ScaledProducts, testing::ValuesIn(cpu::available_levels()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace tiled::test
