// The CPU core's answers where they are known: golden bits, conversions, special values, far
// strides.
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <complex>
#include <limits>
#include <string>

#include "cpu/float_mode.h"
#include "matrices.h"

namespace tiled::test {
namespace {

constexpr cpu::ParallelFor INLINE = {
    [](int64_t count, cpu::Body body, void* state) { body(state, 0, count); }, 8};
constexpr double INF = std::numeric_limits<double>::infinity();
struct Case {
  const cpu::Level* level;
  void (*multiply)(const Problem&, const cpu::ParallelFor&, const cpu::Level&);
  std::string name;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const cpu::Level* level : cpu::available_levels()) {
    all.push_back({level, cpu::mm_blocked, std::string(level->name) + "_blocked"});
    all.push_back({level, cpu::mm_naive, std::string(level->name) + "_naive"});
  }
  return all;
}

class Values : public testing::TestWithParam<Case> {
 protected:
  void multiply(const Matrix& a, const Matrix& b, Matrix& c) {
    c.poison();
    GetParam().multiply(problem_of(a, b, c), INLINE, *GetParam().level);
  }

  bool flushes(DType dtype) { return dtype == DType::BFloat16 && GetParam().level->pairs; }

  // a[1][k] times b[k][1], in fp32.
  float dot(const std::vector<float>& a, const std::vector<float>& b) {
    const int64_t k = static_cast<int64_t>(a.size());
    Matrix x(DType::Float32, 1, 1, k, Layout::Rows), y(DType::Float32, 1, k, 1, Layout::Rows);
    Matrix c(DType::Float32, 1, 1, 1, Layout::Rows);
    std::memcpy(x.data, a.data(), x.bytes);
    std::memcpy(y.data, b.data(), y.bytes);
    multiply(x, y, c);
    return *reinterpret_cast<float*>(c.data);
  }
};

// 2^24 swallows each 1 that is added to it, so the ones of its own segment are lost, and those of
// the next add up before they meet it.
TEST_P(Values, DeepKIsCutAtMultiplesOf4096) {
  for (const int64_t size : {32768, 32769, 40000})
    for (const int64_t cut : {4096, 8192, 28672})
      for (const int64_t ones_begin : {cut - 96, cut - 1, cut}) {
        std::vector<float> a(size, 0.f), b(size, 1.f);
        for (int64_t k = ones_begin; k < cut + 104; ++k) a[k] = 1;
        a[cut - 4096] = 0x1p24f;
        EXPECT_EQ(dot(a, b), 0x1p24f + 104) << size << " " << cut << " " << ones_begin;
      }
}

TEST_P(Values, OtherKIsOneChain) {
  for (const int64_t size : {4095, 4097, 9000, 32767}) {
    std::vector<float> a(size, 1.f), b(size, 1.f);
    a[0] = 0x1p24f;
    EXPECT_EQ(dot(a, b), 0x1p24f) << size;
  }
}

// (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24, whose last term only a fused multiply-add keeps.
TEST_P(Values, MultiplyAddIsFused) {
  const float x = 1 + 0x1p-12f;
  EXPECT_EQ(dot({-(1 + 0x1p-11f), x}, {1, x}), GetParam().level->chains->fused ? 0x1p-24f : 0.f);
}

// From 2^24 on numbers are 2 apart, and a tie with 1 more goes back: ones that are added one by one
// are lost, and those that were added up before are not.
TEST_P(Values, ComplexPartsAreChainsOfTheirOwn) {
  using Numbers = std::complex<float>[3];
  const auto product = [&](const Numbers& x, const Numbers& y) {
    Matrix a(DType::Complex64, 1, 1, 3, Layout::Rows), b(DType::Complex64, 1, 3, 1, Layout::Rows);
    Matrix c(DType::Complex64, 1, 1, 1, Layout::Rows);
    std::memcpy(a.data, x, sizeof x);
    std::memcpy(b.data, y, sizeof y);
    multiply(a, b, c);
    return std::pair(number(DType::Complex64, c.data, 0), number(DType::Complex64, c.data, 1));
  };
  constexpr std::complex<float> i(0, 1), large(0x1p24f, 0);
  const Numbers ones = {large, 1, 1}, unit = {1, 1, 1}, turned = {large, i, i};
  EXPECT_EQ(product(ones, unit).first, 0x1p24);
  EXPECT_EQ(product(turned, {1, -i, -i}).first, 0x1p24 + 2);
  EXPECT_EQ(product({large, 1, 1}, {i, i, i}).second, 0x1p24);
  EXPECT_EQ(product({large, i, i}, {i, 1, 1}).second, 0x1p24 + 2);
  EXPECT_EQ(product({i, 1, 1}, {large, i, i}).second, 0x1p24 + 2);
}

// How the thread that calls rounds, and whether it keeps subnormals, is not seen, and stays so.
TEST_P(Values, TheThreadsModeIsNotSeen) {
  Matrix a(DType::Float32, 1, 1, 2, Layout::Rows), b(DType::Float32, 1, 2, 200, Layout::Rows);
  Matrix c(DType::Float32, 1, 1, 200, Layout::Rows);
  float *first = reinterpret_cast<float*>(b.data), *second = first + 200;
  for (int64_t j = 0; j < 200; ++j) {
    first[j] = j % 2 == 0 ? 1 : 0x1p-120f;
    second[j] = j % 2 == 0 ? 0x1p-60f : 0;
  }
  const float row[2] = {0x1p-20f, 1};
  std::memcpy(a.data, row, sizeof row);
  std::fesetround(FE_UPWARD);
#ifdef __x86_64__
  const uint32_t before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // subnormal results and operands become zeros
#endif
  multiply(a, b, c);
#ifdef __x86_64__
  EXPECT_EQ(_mm_getcsr() & 0x8040, 0x8040u);
  _mm_setcsr(before);
#endif
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
  for (int64_t j = 0; j < 200; ++j)
    ASSERT_EQ(number(DType::Float32, c.at(0, 0, j)), j % 2 == 0 ? 0x1p-20 : 0x1p-140) << j;
}

// Every 16-bit number times 1: comes back as it was, except that -0 is +0 and a NaN is some NaN,
// and that the levels with instructions of their own for bf16 take its subnormals for zero.
TEST_P(Values, SixteenBitsComeBack) {
  for (const DType dtype : {DType::Float16, DType::BFloat16}) {
    const Format format = dtype == DType::Float16 ? HALF : BRAIN;
    for (const int64_t columns : {1, 64}) {
      const int64_t rows = 65536 / columns;
      Matrix a(dtype, 1, rows, 1, Layout::Rows), b(dtype, 1, 1, columns, Layout::Rows);
      Matrix c(dtype, 1, rows, columns, Layout::Rows),
          d(DType::Float32, 1, rows, columns, Layout::Rows);
      for (int64_t i = 0; i < rows; ++i) reinterpret_cast<uint16_t*>(a.data)[i] = i * columns;
      for (int64_t j = 0; j < columns; ++j)
        reinterpret_cast<uint16_t*>(b.data)[j] = dtype == DType::Float16 ? 0x3c00 : 0x3f80;
      multiply(a, b, c);
      multiply(a, b, d);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
          const uint16_t bits = static_cast<uint16_t>(i * columns);
          double value = from_16(bits, format);
          if (flushes(dtype) && std::fabs(value) < 0x1p-126) value = 0;
          const double narrow = number(dtype, c.at(0, i, j)),
                       wide = number(DType::Float32, d.at(0, i, j));
          if (std::isnan(value)) {
            ASSERT_TRUE(std::isnan(narrow) && std::isnan(wide)) << bits;
          } else {
            ASSERT_EQ(narrow, value) << bits;
            ASSERT_EQ(wide, value) << bits;
            ASSERT_FALSE(value == 0 && std::signbit(narrow)) << bits;
          }
        }
    }
  }
}

// Rounded once, to nearest even: sums of two products over the whole range, ties, overflow and
// subnormals among them, against the definition.
TEST_P(Values, SixteenBitsRoundToNearestEven) {
  for (const DType dtype : {DType::Float16, DType::BFloat16}) {
    const Format format = dtype == DType::Float16 ? HALF : BRAIN;
    const int64_t m = 256, n = 300;
    Matrix a(dtype, 1, m, 2, Layout::Rows), b(dtype, 1, 2, n, Layout::Rows);
    Matrix c(dtype, 1, m, n, Layout::Rows), exact(DType::Float32, 1, m, n, Layout::Rows);
    std::mt19937 random(9);
    for (Matrix* x : {&a, &b})
      for (size_t i = 0; i < x->bytes / 2; ++i)
        reinterpret_cast<uint16_t*>(x->data)[i] = static_cast<uint16_t>(random());
    multiply(a, b, c);
    multiply(a, b, exact);
    int subnormal = 0, infinite = 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const double sum = number(DType::Float32, exact.at(0, i, j));
        const double got = number(dtype, c.at(0, i, j)), expected = round_16(sum, format);
        if (std::isnan(sum)) {
          ASSERT_TRUE(std::isnan(got));
          continue;
        }
        ASSERT_EQ(got, expected) << name_of(dtype) << " of " << sum;
        subnormal += got != 0 && std::fabs(got) < std::ldexp(1, format.lowest + format.fraction);
        infinite += std::isinf(got) && !std::isinf(sum);
      }
    EXPECT_TRUE(subnormal > 0 || flushes(dtype)) << "the data do not reach subnormals";
    EXPECT_TRUE(infinite > 0 || dtype == DType::BFloat16) << "the data do not overflow";
  }
}

// Each special value in its own row and column, beside ordinary ones, and at edges of the tile.
TEST_P(Values, SpecialValuesStayInTheirRowAndColumn) {
  for (const DType dtype : {DType::Float32, DType::Float64}) {
    const int64_t m = 17, n = 37, k = 5;
    Matrix a(dtype, 1, m, k, Layout::Rows), b(dtype, 1, k, n, Layout::Rows),
        c(dtype, 1, m, n, Layout::Rows);
    const auto set = [&](const Matrix& x, int64_t i, int64_t j, double value) {
      if (dtype == DType::Float64) std::memcpy(x.at(0, i, j), &value, 8);
      const float narrow = static_cast<float>(value);
      if (dtype == DType::Float32) std::memcpy(x.at(0, i, j), &narrow, 4);
    };
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t i = 0; i < m; ++i) set(a, i, p, 1);
      for (int64_t j = 0; j < n; ++j) set(b, p, j, 2);
    }
    set(a, 3, 2, std::numeric_limits<double>::quiet_NaN());
    set(a, m - 1, 4, -INF);
    set(b, 4, n - 1, 0);
    set(b, 0, 20, INF);
    for (int64_t p = 0; p < k; ++p) set(a, 8, p, -0.);
    multiply(a, b, c);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const double got = number(dtype, c.at(0, i, j));
        const bool zero_times_infinity = (i == 8 && j == 20) || (i == m - 1 && j == n - 1);
        const bool opposite_infinities = i == m - 1 && j == 20;
        if (i == 3 || zero_times_infinity || opposite_infinities) {
          EXPECT_TRUE(std::isnan(got)) << i << " " << j << " " << got;
        } else {
          const double expected = i == m - 1   ? -INF
                                  : j == 20    ? INF
                                  : i == 8     ? 0
                                  : j == n - 1 ? 8
                                               : 10;
          EXPECT_EQ(got, expected) << i << " " << j;
          EXPECT_FALSE(got == 0 && std::signbit(got)) << i << " " << j;
        }
      }
  }
}

TEST_P(Values, EmptyProducts) {
  for (int d = 0; d < DTYPE_COUNT; ++d) {
    const DType dtype = static_cast<DType>(d);
    for (const Layout layout : {Layout::Rows, Layout::Columns, Layout::EveryOther}) {
      Matrix c(dtype, 2, 20, 33, layout);
      c.poison();
      Problem p = problem_of(Matrix(dtype, 2, 20, 0, Layout::Rows),
                             Matrix(dtype, 2, 0, 33, Layout::Rows), c);
      p.a.data = p.b.data = nullptr;
      GetParam().multiply(p, INLINE, *GetParam().level);
      const std::string zeros(size_of(dtype), '\0');
      for (int64_t e = 0; e < 20 * 33; ++e)
        ASSERT_EQ(std::string(c.at(1, e / 33, e % 33), zeros.size()), zeros) << name_of(dtype);
      for (int64_t* size : {&p.m, &p.n, &p.batch}) {
        Problem empty = p;
        (size == &p.m ? empty.m : size == &p.n ? empty.n : empty.batch) = 0;
        empty.c.data = nullptr;
        GetParam().multiply(empty, INLINE, *GetParam().level);
      }
    }
  }
}

// Rows further apart than 2^31 elements, in memory of which only the rows' pages exist.
TEST_P(Values, FarStrides) {
  const int64_t far = (int64_t{1} << 31) + 7;
  for (const bool by_rows : {true, false}) {
    Matrix a(DType::Int8, 1, 3, 2, Layout::Rows), b = a, c = a;
    for (Matrix* x : {&a, &b, &c}) {
      x->rows = x == &b ? 2 : 3;
      x->cols = x == &b ? 3 : x == &a ? 2 : 3;
      x->strides = by_rows ? cpu::Strides{0, far, 1} : cpu::Strides{0, 1, far};
      x->bytes = 2 * far + 8;
      x->memory = std::make_shared<GuardedPages>(x->bytes);
      x->data = x->memory->data();
    }
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t k = 0; k < 2; ++k) {
        *a.at(0, i, k) = static_cast<char>(i + 1 + 10 * k);
        *b.at(0, k, i) = static_cast<char>(i + 1 + 2 * k);
      }
    GetParam().multiply(problem_of(a, b, c), INLINE, *GetParam().level);
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j)
        EXPECT_EQ(*c.at(0, i, j), (i + 1) * (j + 1) + (i + 11) * (j + 3)) << i << " " << j;
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Values, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tiled::test
