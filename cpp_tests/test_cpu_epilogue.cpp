// The epilogue on the CPU, at every instruction level of this machine: the bits of its stated order
// (core/epilogue.h), applied here, one element at a time, to the sums of the identity.
#include <gtest/gtest.h>

#include <cmath>

#include "core/activation.h"
#include "matrices.h"

namespace tiled::test {
namespace {

constexpr cpu::ParallelFor TWO = {[](int64_t count, cpu::Body body, void* state) {
                                    body(state, count / 2, count);
                                    body(state, 0, count / 2);
                                  },
                                  2};

DType sum_of(DType dtype) {
  return dtype == DType::Float16 || dtype == DType::BFloat16 ? DType::Float32 : dtype;
}

int64_t integer(DType dtype, const char* p) {
  int64_t value = 0;
  std::memcpy(&value, p, size_of(dtype));
  return value;
}

// The stated order in type T, of one part or two.
template <typename T>
void expected_real(const Epilogue& e, DType out, const double* sum, const double* bias,
                   const double* input, bool complex, double* pre_activation, double* result) {
  const auto apply = [&](const Factor& f, const T* x, T* c) {
    const T re = static_cast<T>(f.real), im = static_cast<T>(f.imaginary);
    if (!complex || re != 0 || im == 0) c[0] = std::fma(re, x[0], c[0]);
    if (!complex) return;
    if (re != 0 || im == 0) c[1] = std::fma(re, x[1], c[1]);
    if (im != 0) c[0] = std::fma(-im, x[1], c[0]);
    if (im != 0) c[1] = std::fma(im, x[0], c[1]);
  };
  const T s[2] = {T(sum[0]), T(sum[1])}, i[2] = {T(input[0]), T(input[1])};
  T c[2] = {T(bias[0]), T(bias[1])};
  apply(e.alpha, s, c);
  if (e.reads_input()) apply(e.beta, i, c);
  const auto rounded = [&](T x) -> double {
    return out == DType::Float16    ? round_16(x, HALF)
           : out == DType::BFloat16 ? round_16(x, BRAIN)
                                    : static_cast<double>(x);
  };
  for (int part = 0; part < 2; ++part) pre_activation[part] = rounded(c[part]);
  if (!complex) c[0] = activated(e, c[0]);
  for (int part = 0; part < 2; ++part) result[part] = rounded(c[part]);
}

using Product = void (*)(const Problem&, const cpu::ParallelFor&, const cpu::Level&);

class Epilogues : public testing::TestWithParam<const cpu::Level*> {
 protected:
  struct Case {
    DType dtype, out;
    int64_t batch, m, n, k;
    Layout layout_c = Layout::Rows, layout_input = Layout::Rows;
    Along along = Along::N;
    DType companions = DType::Float32;  // of bias and input, where sums are fp32
    bool in_place = false;
    Activation activation = Activation::None;
    Factor alpha{0.7, -0.3, 3}, beta{-1.9, 0.4, -7};
  };

  void expect_bits(const Case& x, Product product) {
    const bool fp32 = sum_of(x.dtype) == DType::Float32;
    const DType companion = !fp32 ? x.dtype : x.in_place ? x.out : x.companions;
    Matrix a(x.dtype, x.batch, x.m, x.k, Layout::Rows), b(x.dtype, x.batch, x.k, x.n, Layout::Rows);
    Matrix sums(sum_of(x.dtype), x.batch, x.m, x.n, Layout::Rows);
    Matrix c(x.out, x.batch, x.m, x.n, x.layout_c), pre_activation = c;
    pre_activation.memory = std::make_shared<GuardedPages>(c.bytes);
    pre_activation.data = pre_activation.memory->data() + (c.data - c.memory->data());
    Matrix input(companion, x.batch, x.m, x.n, x.layout_input);
    if (x.in_place) input = c;
    const int64_t length = x.along == Along::M ? x.m : x.n;
    Matrix bias(fp32 ? x.companions : companion, x.batch, 1, length, Layout::EveryOther);
    for (Matrix* matrix : {&a, &b, &c, &bias}) fill(*matrix, 7 + matrix->bytes);
    if (!x.in_place) fill(input, 5);
    cpu::mm_naive(problem_of(a, b, sums), TWO, *GetParam());

    Matrix old_input = input;  // as it was before C was written over it
    old_input.memory = std::make_shared<GuardedPages>(input.bytes);
    old_input.data = old_input.memory->data() + (input.data - input.memory->data());
    std::memcpy(old_input.memory->data(), input.memory->data(), input.bytes);

    Problem p = problem_of(a, b, c);
    Epilogue& e = p.epilogue;
    e.activation = x.activation;
    e.alpha = x.alpha;
    e.beta = x.beta;
    e.bias_along = x.along;
    if (x.along != Along::Nothing) {
      e.bias_dtype = bias.dtype;
      e.bias = bias.data;
      e.bias_stride = bias.strides.col;
      e.bias_batch_stride = bias.strides.batch;
    }
    if (e.reads_input())
      e.input = {input.data, input.strides.row, input.strides.col, input.strides.batch,
                 input.dtype};
    e.pre_activation = {pre_activation.data, pre_activation.strides.row, pre_activation.strides.col,
                        pre_activation.strides.batch, x.out};
    if (x.activation == Activation::None) e.pre_activation.data = nullptr;
    product(p, TWO, *GetParam());

    int64_t wrong = 0;
    for (int64_t entry = 0; entry < x.batch; ++entry)
      for (int64_t i = 0; i < x.m; ++i)
        for (int64_t j = 0; j < x.n; ++j) {
          const char* sum = sums.at(entry, i, j);
          const char* in = old_input.at(entry, i, j);
          const char* shift = bias.at(entry, 0, x.along == Along::M ? i : j);
          const bool shifts = x.along != Along::Nothing;
          if (is_integer(x.dtype)) {
            const uint64_t value = static_cast<uint64_t>(x.beta.integer) * integer(x.dtype, in) +
                                   static_cast<uint64_t>(x.alpha.integer) * integer(x.dtype, sum) +
                                   (shifts ? integer(x.dtype, shift) : 0);
            wrong += std::memcmp(&value, c.at(entry, i, j), size_of(x.dtype)) != 0;
            continue;
          }
          double parts[3][2] = {}, kept[2], result[2];
          const bool complex = is_complex(x.dtype);
          for (int part = 0; part < (complex ? 2 : 1); ++part) {
            parts[0][part] = number(sums.dtype, sum, part);
            if (shifts) parts[1][part] = number(bias.dtype, shift, part);
            parts[2][part] = number(input.dtype, in, part);
          }
          const bool wide = x.dtype == DType::Float64 || x.dtype == DType::Complex128;
          (wide ? expected_real<double> : expected_real<float>)(e, x.out, parts[0], parts[1],
                                                                parts[2], complex, kept, result);
          const auto same = [&](const Matrix& got, const double* expected) {
            for (int part = 0; part < (complex ? 2 : 1); ++part)
              if (number(got.dtype, got.at(entry, i, j), part) != expected[part]) return false;
            return true;
          };
          wrong += !same(c, result);
          if (e.pre_activation.data != nullptr) wrong += !same(pre_activation, kept);
        }
    EXPECT_EQ(wrong, 0) << name_of(x.dtype) << " to " << name_of(x.out) << ", companions "
                        << name_of(companion) << ", " << x.batch << " x " << x.m << " x " << x.n
                        << " x " << x.k << ", layouts " << static_cast<int>(x.layout_c)
                        << static_cast<int>(x.layout_input) << ", along "
                        << static_cast<int>(x.along) << ", activation "
                        << static_cast<int>(x.activation) << (x.in_place ? ", in place" : "");
  }

  void expect_bits(const Case& x) {
    expect_bits(x, cpu::mm_naive);
    expect_bits(x, cpu::mm_blocked);
  }
};

constexpr Activation ACTIVATIONS[] = {Activation::None, Activation::Relu, Activation::Gelu,
                                      Activation::GeluTanh, Activation::Silu};
constexpr int64_t SIZES[][3] = {// m, n, k
                                {1, 1, 1},   {1, 17, 33},    {31, 1, 70},
                                {5, 100, 7}, {15, 33, 65},   {29, 95, 31},
                                {3, 3, 0},   {130, 7, 1030}, {61, 257, 90}};

TEST_P(Epilogues, EveryDTypeAndSize) {
  for (int d = 0; d < DTYPE_COUNT; ++d)
    for (const auto& [m, n, k] : SIZES) {
      const DType dtype = static_cast<DType>(d);
      Case x{dtype, dtype, 1, m, n, k};
      expect_bits(x);
      x.beta = {0, 0, 0};
      x.along = Along::M;
      expect_bits(x);
      x.dtype = dtype;
      x.batch = 3;
      x.along = Along::Nothing;
      x.beta = {1, 0, 1};
      x.in_place = true;
      expect_bits(x);
    }
}

TEST_P(Epilogues, EveryActivation) {
  for (const DType dtype : {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16})
    for (const Activation activation : ACTIVATIONS) {
      Case x{dtype, dtype, 2, 19, 45, 22};
      x.activation = activation;
      expect_bits(x);
      x.layout_c = Layout::Columns;
      x.layout_input = Layout::EveryOther;
      expect_bits(x);
      x.out = sum_of(dtype);
      expect_bits(x);
    }
}

TEST_P(Epilogues, EveryLayoutAndCompanion) {
  constexpr Layout LAYOUTS[] = {Layout::Rows,          Layout::Columns,    Layout::PaddedRows,
                                Layout::PaddedColumns, Layout::EveryOther, Layout::Backwards};
  for (const DType dtype : {DType::Float32, DType::BFloat16, DType::Complex64, DType::UInt8})
    for (const Layout c : LAYOUTS)
      for (const Layout input : LAYOUTS)
        for (const DType companions : {DType::Float32, DType::Float16, DType::BFloat16}) {
          Case x{dtype, dtype, 2, 37, 41, 43};
          x.layout_c = c;
          x.layout_input = input;
          x.companions = companions;
          x.along = c < input ? Along::M : Along::N;
          expect_bits(x, cpu::mm_blocked);
        }
}

// Blocks of K and segments: sums that wait do so outside C.
TEST_P(Epilogues, DeepKIntoItsOwnInput) {
  for (int d = 0; d < DTYPE_COUNT; ++d)
    for (const int64_t k : {4500, 33000})
      for (const Layout c : {Layout::Rows, Layout::Columns}) {
        const DType dtype = static_cast<DType>(d);
        Case x{dtype, sum_of(dtype), 1, 5, 18, k, c};
        x.in_place = true;
        x.beta = {1, 0, 1};
        expect_bits(x, cpu::mm_blocked);
      }
}

INSTANTIATE_TEST_SUITE_P(Levels, Epilogues, testing::ValuesIn(cpu::available_levels()),
                         [](const auto& info) { return std::string(info.param->name); });

// Where one of the steps is not fused, or comes in another order, bits change: the tests above
// would see it.
TEST(ExpectedEpilogue, SeesAnotherOrder) {
  Epilogue e = {};
  e.out_dtype = DType::Float32;
  e.alpha = {0.7, 0, 1};
  e.beta = {-1.9, 0, 1};
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  int unfused = 0, reordered = 0;
  for (int i = 0; i < 1000; ++i) {
    const double sum[2] = {normal(random)}, bias[2] = {normal(random)}, input[2] = {normal(random)};
    double pre_activation[2], result[2];
    expected_real<float>(e, DType::Float32, sum, bias, input, false, pre_activation, result);
    const float s = sum[0], b = bias[0], x = input[0], alpha = 0.7, beta = -1.9;
    const volatile float product = beta * x;
    unfused += product + std::fma(alpha, s, b) != result[0];
    reordered += std::fma(alpha, s, std::fma(beta, x, b)) != result[0];
  }
  EXPECT_GT(unfused, 100);
  EXPECT_GT(reordered, 100);
}

}  // namespace
}  // namespace tiled::test
