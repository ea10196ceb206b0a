// A product by one of another dtype: where the other's elements are, what a workspace takes, and
// which products have one. The kernels run where there is a GPU (python_tests/test_complex.py,
// test_bits.py).
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <random>
#include <set>
#include <vector>

#include "cuda/plan/conversion.h"
#include "planned.h"

namespace tiled::test {
namespace {

using Number = std::complex<double>;  // small integers: every order of sums is exact

struct Sizes {
  int64_t batch, m, n, k;
};
Sizes drawn_sizes(std::mt19937_64& random) {
  const auto size = [&] { return static_cast<int64_t>(1 + random() % 6); };
  return {size(), size(), size(), size()};
}

// Strides of [batch][rows][columns]: either may be the one of neighbours, with a gap between lines.
std::array<int64_t, 3> drawn_strides(std::mt19937_64& random, int64_t rows, int64_t columns) {
  const auto gap = static_cast<int64_t>(random() % 3);
  const bool by_rows = random() % 2 == 0;
  const int64_t line = (by_rows ? columns : rows) + gap, lines = by_rows ? rows : columns;
  std::array<int64_t, 3> strides = {line * lines, by_rows ? line : 1, by_rows ? 1 : line};
  if (random() % 4 == 0)  // no neighbours at all
    for (int64_t& stride : strides) stride *= 2;
  return strides;
}

// An operand of small integers. `shared`: by all entries of the batch.
std::vector<Number> fill(Operand& x, std::mt19937_64& random, int64_t batch, int64_t rows,
                         int64_t columns, bool shared) {
  const auto [entry, row, column] = drawn_strides(random, rows, columns);
  std::vector<Number> data(static_cast<size_t>(batch * entry + 1));
  for (Number& value : data)
    value = {static_cast<double>(random() % 17) - 8, static_cast<double>(random() % 17) - 8};
  const int64_t by_entry = shared ? 0 : entry;
  x = {nullptr, row, column, by_entry,
       alignment_of(nullptr, DType::Complex128, row, column, by_entry)};
  return data;
}

// The operand as the real product reads it: in place, or as the copy that is asked for.
std::vector<double> as_parts(const std::vector<Number>& data, const Side& from, const Side& to,
                             bool copies, int64_t batch) {
  const auto* const reals = reinterpret_cast<const double*>(data.data());
  if (!copies) return {reals, reals + 2 * data.size()};
  const int64_t entries = to.batch_stride == 0 ? 1 : batch;
  std::vector<double> copy(static_cast<size_t>(entries * to.rows * to.row_stride), NAN);
  for (int64_t e = 0; e < entries; ++e)
    for (int64_t i = 0; i < from.rows; ++i)
      for (int64_t k = 0; k < from.k; ++k) {
        const Number value = data[e * from.batch_stride + i * from.row_stride + k * from.k_stride];
        double* const at = &copy[e * to.batch_stride + 2 * i * to.row_stride + k * to.k_stride];
        at[0] = value.real(), at[to.row_stride] = value.imag();
      }
  return copy;
}

TEST(Conversion, OfComplexIsTheComplexProduct) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const Sizes s = drawn_sizes(random);
    Problem p = problem_of(s.m, s.n, s.k, DType::Complex128, s.batch);
    const std::vector<Number> a = fill(p.a, random, s.batch, s.m, s.k, random() % 4 == 0);
    const std::vector<Number> b = fill(p.b, random, s.batch, s.k, s.n, random() % 4 == 0);
    const auto [entry, row, column] = drawn_strides(random, s.m, s.n);
    p.c = {nullptr, row, column, entry, 16};
    ASSERT_TRUE(has_conversion(p));
    const Conversion parts = conversion_of(p);
    const Problem &w = parts.whole, &r = parts.product;
    const bool turned = p.c.row_stride == 1 && p.c.col_stride != 1;
    EXPECT_EQ(w.m, turned ? p.n : p.m);
    const Side from_a = side_a(w), from_b = side_b(w), to_a = side_a(r), to_b = side_b(r);
    const std::vector<Number>&of_a = turned ? b : a, &of_b = turned ? a : b;
    const auto x = as_parts(of_a, from_a, to_a, parts.copies_a, s.batch);
    const auto y = as_parts(of_b, from_b, to_b, parts.copies_b, s.batch);
    EXPECT_EQ(parts.copies_a, from_a.rows > 1 && from_a.row_stride != 1);
    EXPECT_EQ(parts.copies_b, from_b.rows > 1 && from_b.row_stride != 1);
    EXPECT_LE(static_cast<int64_t>(x.size() * sizeof(double)) * parts.copies_a, parts.a_bytes);
    EXPECT_LE(static_cast<int64_t>(y.size() * sizeof(double)) * parts.copies_b, parts.b_bytes);
    EXPECT_LE(s.batch * r.c.batch_stride * static_cast<int64_t>(sizeof(double)), parts.r_bytes);
    for (const int64_t bytes : {parts.a_bytes, parts.b_bytes, parts.r_bytes})
      EXPECT_EQ(bytes % WORKSPACE_ALIGNMENT, 0);
    const auto sum_of = [&](int64_t e, int64_t i, int64_t j) {
      double sum = 0;
      for (int64_t k = 0; k < r.k; ++k)
        sum += x.at(e * r.a.batch_stride + i * r.a.row_stride + k * r.a.col_stride) *
               y.at(e * r.b.batch_stride + k * r.b.row_stride + j * r.b.col_stride);
      return sum;
    };
    for (int64_t e = 0; e < s.batch; ++e)
      for (int64_t i = 0; i < w.m; ++i)
        for (int64_t j = 0; j < w.n; ++j) {
          const Number found = {sum_of(e, 2 * i, 2 * j) - sum_of(e, 2 * i + 1, 2 * j + 1),
                                sum_of(e, 2 * i, 2 * j + 1) + sum_of(e, 2 * i + 1, 2 * j)};
          const int64_t row_of_c = turned ? j : i, column_of_c = turned ? i : j;
          Number expected = 0;
          for (int64_t k = 0; k < s.k; ++k)
            expected += a[e * p.a.batch_stride + row_of_c * p.a.row_stride + k * p.a.col_stride] *
                        b[e * p.b.batch_stride + k * p.b.row_stride + column_of_c * p.b.col_stride];
          ASSERT_EQ(found, expected);
        }
  }
}

// No two elements of a copy are in one place, all are within its bytes, lines of 16 bytes begin at
// multiples of 16, and the direction of neighbours stays.
void expect_copy(const Side& from, const Side& to, int64_t bytes, int64_t batch) {
  EXPECT_EQ(to.rows, from.rows);
  EXPECT_EQ(to.k, from.k);
  EXPECT_EQ(to.alignment, 16);
  const bool along_rows = to.row_stride == 1 && to.k_stride != 1;
  EXPECT_EQ(along_rows,
            from.rows > 1 && from.row_stride == 1 && (from.k == 1 || from.k_stride > 1));
  EXPECT_EQ((along_rows ? to.k_stride : to.row_stride) % 4, 0);
  EXPECT_EQ(to.batch_stride % 4, 0);
  std::set<int64_t> places;
  const int64_t entries = to.batch_stride == 0 ? 1 : batch;
  EXPECT_TRUE(entries == batch || from.batch_stride == 0);
  for (int64_t e = 0; e < entries; ++e)
    for (int64_t i = 0; i < to.rows; ++i)
      for (int64_t k = 0; k < to.k; ++k)
        places.insert(e * to.batch_stride + i * to.row_stride + k * to.k_stride);
  EXPECT_EQ(static_cast<int64_t>(places.size()), entries * to.rows * to.k);
  EXPECT_GE(*places.begin(), 0);
  EXPECT_LT(*places.rbegin() * 4, bytes);
}

TEST(Conversion, WidensElementsOf16Bits) {
  std::mt19937_64 random(2);
  for (int trial = 0; trial < 300; ++trial) {
    const Sizes s = drawn_sizes(random);
    Problem p = problem_of(s.m, s.n, s.k, DType::BFloat16, s.batch);
    p.arithmetic = Arithmetic::Fma;
    fill(p.a, random, s.batch, s.m, s.k, random() % 4 == 0);
    fill(p.b, random, s.batch, s.k, s.n, random() % 4 == 0);
    const auto [entry, row, column] = drawn_strides(random, s.m, s.n);
    p.c = {nullptr, row, column, entry, 16};
    p.epilogue.activation = Activation::Relu;
    ASSERT_TRUE(has_conversion(p));
    const Conversion conversion = conversion_of(p);
    const Problem &w = conversion.whole, &r = conversion.product;
    EXPECT_EQ(r.dtype, DType::Float32);
    EXPECT_EQ(r.epilogue.out_dtype, DType::Float32);
    EXPECT_TRUE(r.epilogue.is_identity());
    EXPECT_EQ(w.epilogue.activation, Activation::Relu);
    EXPECT_TRUE(conversion.copies_a && conversion.copies_b);
    expect_copy(side_a(w), side_a(r), conversion.a_bytes, s.batch);
    expect_copy(side_b(w), side_b(r), conversion.b_bytes, s.batch);
    EXPECT_EQ(r.c.col_stride, 1);
    EXPECT_GE(r.c.row_stride, r.n);
    EXPECT_GE(r.c.batch_stride, r.m * r.c.row_stride);
    EXPECT_LE(s.batch * r.c.batch_stride * 4, conversion.r_bytes);
  }
}

// An alignment that is claimed divides every address that vectors begin at.
TEST(Conversion, AlignmentHolds) {
  for (const DType dtype : {DType::Complex64, DType::Complex128})
    for (int64_t pitch = 5; pitch < 12; ++pitch)
      for (const int64_t base : {0, 8, 16}) {
        Problem p = problem_of("tn", 5, 4, 3, dtype);
        p.a.col_stride = pitch;
        p.a.alignment = alignment_of(reinterpret_cast<const void*>(base), dtype, 1, pitch, 0);
        const Problem r = conversion_of(p).product;
        EXPECT_EQ(r.a.row_stride, 1);
        EXPECT_EQ(r.a.col_stride * size_of(r.dtype) % r.a.alignment, 0);
        EXPECT_EQ(base % r.a.alignment, 0);
      }
  // One row of A is contiguous along m whatever its strides are.
  const Problem row = problem_of(1, 4, 3, DType::Complex64);
  EXPECT_FALSE(conversion_of(row).copies_a);
  EXPECT_EQ(conversion_of(row).product.a.alignment, 8);
}

TEST(Conversion, WhichProductsHaveThem) {
  const Problem p = problem_of(64, 64, 64, DType::Complex64);
  EXPECT_TRUE(has_conversion(p));
  EXPECT_FALSE(has_conversion(problem_of(64, 64, 64, DType::Float32)));
  Problem half = problem_of(64, 64, DEEP_K, DType::Float16);
  half.arithmetic = Arithmetic::Tensor;
  EXPECT_FALSE(has_conversion(half));
  half.arithmetic = Arithmetic::Fma;
  EXPECT_TRUE(has_conversion(half));
  half.leaf = 1024;
  EXPECT_TRUE(has_conversion(half));
  half.groups.shared = Shared::M;
  EXPECT_FALSE(has_conversion(half));
  EXPECT_TRUE(has_conversion(problem_of(64, 64, DEEP_K - 1, DType::Complex64)));
  EXPECT_FALSE(has_conversion(problem_of(64, 64, DEEP_K, DType::Complex64)));
  EXPECT_FALSE(has_conversion(problem_of(64, 64, 0, DType::Complex64)));
  EXPECT_FALSE(has_conversion(problem_of(0, 64, 64, DType::Complex64)));
  constexpr int64_t HUGE_SIZE = int64_t{1} << 40;
  EXPECT_FALSE(has_conversion(problem_of(HUGE_SIZE, 1, 1, DType::Complex64)));
  EXPECT_FALSE(has_conversion(problem_of(1, HUGE_SIZE, 1, DType::Complex128)));
  EXPECT_FALSE(has_conversion(problem_of(1 << 15, 1 << 15, 64, DType::Complex64)));  // 16 GiB
  Problem tree = p;
  tree.leaf = 16;
  EXPECT_FALSE(has_conversion(tree));
  Problem groups = p;
  groups.groups.shared = Shared::M;
  EXPECT_FALSE(has_conversion(groups));
}

}  // namespace
}  // namespace tiled::test
