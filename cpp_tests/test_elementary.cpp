// exp, tanh, erf and the activations that are made like them, against the C library's in a wider
// type: 2 ulp at most, of every 16-bit value, and of values over all exponents of float and double.
// The activations' brief forms, by the bound of brief_activation.h; their derivatives' for
// gradients of 16 bits, by that of brief_slope.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "core/activation.h"
#include "core/activation_gradient.h"
#include "cpu/kernels.h"
#include "matrices.h"

namespace tiled::test {
namespace {

constexpr double BOUND = 2;  // ulp

// The error in ulps of the right result; infinite where one alone is NaN. What overflows counts as
// the number after the largest.
template <typename Real>
double ulps(Real result, long double right) {
  using Limits = std::numeric_limits<Real>;
  if (std::isnan(result) && std::isnan(right)) return 0;
  if (std::isinf(result) && std::isinf(right)) return result == right ? 0 : Limits::infinity();
  const long double end = std::ldexp(1.0L, Limits::max_exponent);
  const auto within = [&](long double x) { return std::min(std::max(x, -end), end); };
  int exponent = Limits::min_exponent;
  if (right != 0) exponent = std::max(std::ilogb(right) + 1, exponent);
  const long double ulp =
      std::ldexp(1.0L, std::min(exponent, Limits::max_exponent) - Limits::digits);
  return std::isnan(result) || std::isnan(right)
             ? Limits::infinity()
             : static_cast<double>(std::abs(within(result) - within(right)) / ulp);
}

struct Function {
  const char* name;
  float (*of_float)(float);
  double (*of_double)(double);
  long double (*right)(long double);
  float (*brief)(float) = nullptr;  // where C has 16 bits
};

long double sigmoid_times(long double x, long double w) {
  if (x == -std::numeric_limits<long double>::infinity()) return -0.0L;  // the limit
  return w < 0 ? x * (std::exp(w) / (1 + std::exp(w))) : x / (1 + std::exp(-w));
}

// erfc(x / sqrt 2). The quotient's rounding would be seen where it is large: exp(-x^2 / 2) is set
// right by how far its square is from x^2 / 2.
long double erfc_over_root_2(long double x) {
  const long double z = x / std::sqrt(2.0L), square = z * z, half = x * x / 2;
  if (!(z > 1) || z > 110) return std::erfc(z);
  const long double rests = std::fma(x, x / 2, -half) - std::fma(z, z, -square);
  return std::erfc(z) * std::exp(square - half - rests);
}

const long double ROOT = 2 * std::sqrt(2 / 3.14159265358979323846264338327950288L);

#define BRIEF(function) [](float x) { return elementary::brief_##function(x); }
#define BOTH(function) \
  [](float x) { return elementary::function(x); }, [](double x) { return elementary::function(x); }

const Function FUNCTIONS[] = {
    {"exp", BOTH(exp), [](long double x) { return std::exp(x); }},
    {"tanh", BOTH(tanh), [](long double x) { return std::tanh(x); }},
    {"erf", BOTH(erf), [](long double x) { return std::erf(x); }},
    {"silu", BOTH(silu), [](long double x) { return sigmoid_times(x, x); }, BRIEF(silu)},
    {"gelu_tanh", BOTH(gelu_tanh),
     [](long double x) { return sigmoid_times(x, ROOT * (x + 0.044715L * x * x * x)); },
     BRIEF(gelu_tanh)},
    {"gelu", BOTH(gelu),
     [](long double x) {
       const long double tail = erfc_over_root_2(-x) / 2;
       return tail == 0 ? -0.0L : x * tail;
     },
     BRIEF(gelu)},
};
#undef BOTH
#undef BRIEF

template <typename Real>
Real apply(const Function& f, Real x) {
  if constexpr (std::is_same_v<Real, float>)
    return f.of_float(x);
  else
    return f.of_double(x);
}

template <typename Real>
void expect_exact(const Function& f, const std::vector<Real>& values) {
  double worst = 0;
  Real at = 0;
  for (const Real x : values) {
    const double error = ulps(apply(f, x), f.right(x));
    if (!(error <= worst)) worst = error, at = x;
  }
  EXPECT_LE(worst, BOUND) << f.name << " of " << std::hexfloat << at;
}

// A fifth of any bits, the others where the functions are neither constant nor x.
template <typename Real, typename Bits>
std::vector<Real> drawn(int count, std::initializer_list<double> spans) {
  std::mt19937_64 random(18);
  std::vector<Real> values;
  for (int i = 0; i < count; ++i) {
    const Bits bits = static_cast<Bits>(random());
    Real value;
    std::memcpy(&value, &bits, sizeof value);
    values.push_back(value);
    for (const double span : spans)
      values.push_back(static_cast<Real>(std::ldexp(random() >> 11, -52) * span - span));
  }
  return values;
}

// Beyond all that is finite, and the smallest.
template <typename Real>
std::vector<Real> edges() {
  using L = std::numeric_limits<Real>;
  std::vector<Real> values = {0,           L::infinity(),   L::quiet_NaN(), L::max(),
                              L::min(),    L::denorm_min(), L::min() / 2,   1,
                              L::epsilon()};
  const size_t positive = values.size();
  for (size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  return values;
}

// Errors of activation_gradient.h count on it. A power of two changes the exponents of d and of the
// guess alike, so two of them stand for all; of double it is a quotient.
TEST(Inverse, IsOffByLessThanItsBoundForEveryFraction) {
  double worst = 0;
  for (uint32_t bits = 0x3f800000; bits < 0x40800000; ++bits) {
    const float d = elementary::bits_as<float>(bits);
    const double right = 1 / static_cast<double>(d);
    worst = std::max(worst, std::abs(elementary::inverse_of(d) - right) / right);
  }
  EXPECT_LE(worst, 1.3 * std::ldexp(1.0, -24));
}

class Elementary : public testing::TestWithParam<Function> {};

TEST_P(Elementary, IsExactForEvery16BitValue) {
  std::vector<float> values;
  for (int bits = 0; bits < 1 << 16; ++bits) {
    values.push_back(static_cast<float>(from_16(static_cast<uint16_t>(bits), HALF)));
    values.push_back(static_cast<float>(from_16(static_cast<uint16_t>(bits), BRAIN)));
  }
  expect_exact(GetParam(), values);
}

TEST_P(Elementary, IsExactForAMillionFloats) {
  expect_exact(GetParam(), edges<float>());
  expect_exact(GetParam(), drawn<float, uint32_t>(200'000, {110, 16, 3, 0.1}));
}

TEST_P(Elementary, IsExactForDoubles) {
  if (std::numeric_limits<long double>::digits <= 53)
    GTEST_SKIP() << "this machine has no type wider than double";
  expect_exact(GetParam(), edges<double>());
  expect_exact(GetParam(), drawn<double, uint64_t>(100'000, {760, 39, 8, 1, 1e-5}));
}

// How many times as far off as brief_activation.h says; infinite where NaN or a sign is wrong. What
// is less than half of bf16's smallest number counts as that half, and results may be subnormal.
double of_brief_bound(float result, long double right) {
  constexpr double WRONG = std::numeric_limits<double>::infinity();
  if (std::isnan(right)) return std::isnan(result) ? 0 : WRONG;
  if (std::isnan(result) || std::signbit(result) != std::signbit(right)) return WRONG;
  if (std::isinf(right)) return std::isinf(result) ? 0 : WRONG;
  const auto seen = [](long double x) { return std::max(std::abs(x), 0x1p-134L); };
  const long double size = seen(right), relative = size < 0x1p-25L ? 0x1p-13L : 0x1p-16L;
  return static_cast<double>(std::abs(seen(result) - size) / (relative * size + 0x1p-150L));
}

TEST_P(Elementary, BriefFormIsAsExactAsItSays) {
  const Function& f = GetParam();
  if (f.brief == nullptr) GTEST_SKIP() << "no activation";
  std::vector<float> values = drawn<float, uint32_t>(200'000, {110, 16, 3, 0.1});
  for (const float x : edges<float>()) values.push_back(x);
  for (int bits = 0; bits < 1 << 16; ++bits)
    for (const auto& type : {HALF, BRAIN})
      values.push_back(static_cast<float>(from_16(static_cast<uint16_t>(bits), type)));
  double worst = 0;
  float at = 0;
  for (const float x : values) {
    const double error = of_brief_bound(f.brief(x), f.right(x));
    if (!(error <= worst)) worst = error, at = x;
  }
  EXPECT_LE(worst, 1) << f.name << " of " << std::hexfloat << at;
}

// Bits: signs of zero, and results that are exact.
TEST_P(Elementary, OfSpecialValues) {
  const Function& f = GetParam();
  const std::string name = f.name;
  const auto is = [&](float x, float right) {
    const float result = f.of_float(x);
    EXPECT_EQ(result, right) << name << " of " << x;
    EXPECT_EQ(std::signbit(result), std::signbit(right)) << name << " of " << x;
    EXPECT_EQ(f.of_double(x), right) << name << " of " << x;
    EXPECT_EQ(std::signbit(f.of_double(x)), std::signbit(right)) << name << " of " << x;
  };
  constexpr float INF = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(f.of_float(NAN)) && std::isnan(f.of_double(NAN)));
  if (name == "exp") {
    is(0, 1), is(-0.0f, 1), is(INF, INF), is(-INF, 0), is(1e-30f, 1);
  } else if (name == "tanh" || name == "erf") {
    is(0, 0), is(-0.0f, -0.0f), is(INF, 1), is(-INF, -1), is(30, 1), is(-30, -1);
  } else {
    is(0, 0), is(-0.0f, -0.0f), is(INF, INF), is(-INF, -0.0f), is(1e30f, 1e30f), is(-1e30f, -0.0f);
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, Elementary, testing::ValuesIn(FUNCTIONS),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- derivatives where the gradient has 16 bits -------------------------------------------------

// f'(-t) = one - other, and the derivative of t is 1 - that.
struct Terms {
  long double one, other;
};

struct Slope {
  const char* name;
  Activation activation;
  float (*brief)(float);
  float (*of_float)(float);
  float end;  // the bits' last 11 are 0; from there on it is the same number
  Terms (*right)(long double t);
};

// The terms of x sigmoid(w), with q = t w'(t).
Terms sigmoid_terms(long double w, long double q) {
  const long double p = std::exp(-w), i = 1 / (1 + p);
  return {p * i, q * p * i * i};
}

#define BOTH(name)                                             \
  [](float x) { return elementary::brief_##name##_slope(x); }, \
      [](float x) { return elementary::name##_slope(x); }

const Slope SLOPES[] = {
    {"gelu", Activation::Gelu, BOTH(gelu), 16,
     [](long double t) {
       const long double pi = 3.14159265358979323846264338327950288L;
       return Terms{erfc_over_root_2(t) / 2, t * std::exp(-t * t / 2) / std::sqrt(2 * pi)};
     }},
    {"gelu_tanh", Activation::GeluTanh, BOTH(gelu_tanh), 12,
     [](long double t) {
       const long double cube = 0.044715L * t * t * t;
       return sigmoid_terms(ROOT * (t + cube), ROOT * (t + 3 * cube));
     }},
    {"silu", Activation::Silu, BOTH(silu), 112, [](long double t) { return sigmoid_terms(t, t); }},
};
#undef BOTH

// How far off brief_slope.h lets a derivative be where the largest of it and its terms is `size`.
double slope_bound(double size) {
  return size < 0x1p-25 ? 0x1p-12 * size + 0x1p-149 : 0x1p-16 * size;
}

constexpr int ROW = 2048;

// How many derivatives, f'(-t) in the first row and f'(t) in the second, are further off than that
// for the 2048 floats t that follow `first`, a multiple of 2048 in its bits. The right ones are
// those of the third degree through four of them, within 2^-30 S: no t is more than 2^-12 larger
// than another. The bound is that of the smallest S of the four.
int too_far_off(const Slope& f, float first, const float (&rows)[2][ROW]) {
  constexpr int STEP = ROW / 3;
  const auto bits = elementary::bits_as<uint32_t>(first);
  double c[4], smallest = 1;
  for (int k = 0; k < 4; ++k) {
    const Terms terms = f.right(elementary::bits_as<float>(bits + k * STEP));
    const long double right = terms.one - terms.other;
    const long double size = std::max({std::abs(right), terms.one, terms.other});
    c[k] = static_cast<double>(right);
    smallest = std::min(smallest, static_cast<double>(size));
  }
  const double bound = slope_bound(smallest), bound_of_positive = slope_bound(1 - c[0]);
  for (int k = 1; k < 4; ++k)  // Newton's differences
    for (int i = 3; i >= k; --i) c[i] -= c[i - 1];
  int count = 0;
  for (int i = 0; i < ROW; ++i) {
    const double u = i * (1.0 / STEP);
    const double right = c[0] + u * (c[1] + (u - 1) / 2 * (c[2] + (u - 2) / 3 * c[3]));
    count += !(std::abs(rows[0][i] - right) <= bound);
    count += !(std::abs(rows[1][i] - (1 - right)) <= bound_of_positive);
  }
  return count;
}

// Derivatives of two rows of x, as a pass over a gradient of ones on the CPU has them.
struct SlopeRows {
  alignas(64) float x[2][ROW], slopes[2][ROW], sums[ROW] = {};

  void run(const cpu::Level& level, DType dtype, Activation activation) {
    std::fill_n(slopes[0], 2 * ROW, 1.0f);
    level.chains->codecs[static_cast<int>(dtype)].pass_back(
        {activation, slopes, x, ROW, 2, ROW, sums});
  }
};

class Slopes : public testing::TestWithParam<Slope> {};

TEST_P(Slopes, OfEveryFloatAreAsExactAsTheySay) {
  const Slope& f = GetParam();
  SlopeRows rows;
  const auto begin = elementary::bits_as<uint32_t>(0x1p-20f);
  const auto end = elementary::bits_as<uint32_t>(f.end);
  for (uint32_t bits = begin; bits < end; bits += ROW) {
    for (int i = 0; i < ROW; ++i) {
      rows.x[1][i] = elementary::bits_as<float>(bits + i);
      rows.x[0][i] = -rows.x[1][i];
    }
    rows.run(*cpu::available_levels().back(), DType::BFloat16, f.activation);
    const float first = rows.x[1][0];
    ASSERT_EQ(too_far_off(f, first, rows.slopes), 0)
        << "from " << std::hexfloat << first << " in size";
  }
}

// Only gradients of 16 bits have brief slopes, at every level.
TEST_P(Slopes, AreTheOnesThatThePassTakes) {
  const Slope& f = GetParam();
  std::vector<float> values = drawn<float, uint32_t>(ROW / 5, {110, 16, 3, 0.1});
  for (const float x : edges<float>()) values.push_back(x);
  values.resize(2 * ROW, 1);
  SlopeRows rows;
  std::copy(values.begin(), values.end(), rows.x[0]);
  for (const cpu::Level* level : cpu::available_levels())
    for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32}) {
      rows.run(*level, dtype, f.activation);
      int wrong = 0, differ = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        const float brief = f.brief(values[i]), full = f.of_float(values[i]);
        const float right = dtype == DType::Float32 ? full : brief;
        const float result = rows.slopes[i / ROW][i % ROW];
        wrong += std::isnan(right) ? !std::isnan(result)
                                   : std::memcmp(&result, &right, sizeof right) != 0;
        differ += brief != full;
      }
      EXPECT_EQ(wrong, 0) << level->name << ", " << name_of(dtype);
      EXPECT_GT(differ, 500);
    }
}

TEST_P(Slopes, OfSpecialValues) {
  const auto is = [&](float x, float right) {
    const float result = GetParam().brief(x);
    EXPECT_LE(std::abs(result - right), right == 0.5f ? 0x1p-16f : 0) << "of " << x;
    EXPECT_EQ(std::signbit(result), std::signbit(right)) << "of " << x;
  };
  constexpr float INF = std::numeric_limits<float>::infinity();
  is(0, 0.5f), is(-0.0f, 0.5f), is(INF, 1), is(1e30f, 1), is(-INF, -0.0f), is(-1e30f, -0.0f);
  is(std::numeric_limits<float>::denorm_min(), 0.5f), is(-0x1p-30f, 0.5f), is(0x1p-21f, 0.5f);
  EXPECT_TRUE(std::isnan(GetParam().brief(NAN)) && std::isnan(GetParam().brief(-NAN)));
}

INSTANTIATE_TEST_SUITE_P(Functions, Slopes, testing::ValuesIn(SLOPES),
                         [](const auto& info) { return std::string(info.param.name); });

// An f'(-t) that is off by 2^-13 of itself, a small one by 1/2000; an f'(t) by 2^-15; and NaN.
TEST(SlopeBound, SeesALostDigit) {
  SlopeRows rows;
  for (const Slope& f : SLOPES)
    for (const float first : {0.25f, 2.0f, 8.0f}) {
      for (int i = 0; i < ROW; ++i) {
        const float t = elementary::bits_as<float>(elementary::bits_as<uint32_t>(first) + i);
        rows.slopes[0][i] = f.of_float(-t), rows.slopes[1][i] = f.of_float(t);
      }
      EXPECT_EQ(too_far_off(f, first, rows.slopes), 0) << f.name;
      rows.slopes[0][7] *= first < 8 ? 1 + 0x1p-13f : 1.0005f;
      rows.slopes[1][9] -= 0x1p-15f;
      rows.slopes[1][11] = NAN;
      EXPECT_EQ(too_far_off(f, first, rows.slopes), 3) << f.name << " from " << first;
    }
}

TEST(Ulps, SeeALostDigit) {
  EXPECT_EQ(ulps(1.0f, 1.0L), 0);
  EXPECT_EQ(ulps(1 + 0x1p-22f, 1.0L), 2);
  EXPECT_EQ(ulps(0x1p-149f, 0x3p-149L), 2);
  EXPECT_EQ(ulps(INFINITY, 0x1.fffffep127L), 1);
  EXPECT_FALSE(ulps(NAN, 1.0L) <= BOUND);
  EXPECT_LE(of_brief_bound(1 + 0x1p-16f, 1.0L), 1);
  EXPECT_FALSE(of_brief_bound(1 + 0x1.8p-16f, 1.0L) <= 1);
  EXPECT_FALSE(of_brief_bound(NAN, 1.0L) <= 1);
  EXPECT_FALSE(of_brief_bound(0.0f, -0.0L) <= 1);
  EXPECT_FALSE(of_brief_bound(0.0f, 0x1p-133L) <= 1);
  EXPECT_FALSE(ulps(1.0f, static_cast<long double>(NAN)) <= BOUND);
  // 1 + erf cancels: what gelu is not made of.
  const float x = -4.2f, right = static_cast<float>(FUNCTIONS[5].right(x));
  EXPECT_GT(ulps(x / 2 * (1 + std::erf(x / std::sqrt(2.0f))), right), 100);
}

}  // namespace
}  // namespace tiled::test
