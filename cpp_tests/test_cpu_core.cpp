// The CPU core by itself, at every instruction level of this machine. No tensor library, so it runs
// under the tools that find what tests cannot see: cpu_core.sh.
#include <cstring>
#include <new>
#include <random>

#include "cpu/blocking.h"
#include "cpu/budgets.h"
#include "gates.h"
#include "on_level.h"

namespace tiled::test {
namespace {

constexpr DType FLOATS[] = {DType::Float32,  DType::Float64,   DType::Float16,
                            DType::BFloat16, DType::Complex64, DType::Complex128};

class Core : public OnLevel {};

constexpr int64_t SIZES[][3] = {// m, n, k
                                {1, 1, 1},     {2, 3, 4},     {1, 17, 33},   {31, 1, 70},
                                {5, 100, 7},   {16, 16, 16},  {15, 33, 65},  {29, 95, 31},
                                {64, 64, 64},  {127, 65, 66}, {3, 500, 300}, {130, 7, 1030},
                                {61, 257, 90}, {257, 63, 9},  {1, 300, 900}};

TEST_P(Core, NaiveIsRight) {
  for (const DType dtype : FLOATS)
    for (const auto [m, n, k] :
         {std::array{40, 30, 100}, {1, 50, 1}, {20, 30, 5000}, {5, 8, 36870}}) {
      Matrix a(dtype, 1, m, k, Layout::Rows), b(dtype, 1, k, n, Layout::Columns);
      Matrix c(dtype, 1, m, n, Layout::Rows);
      fill(a, 3);
      fill(b, 4);
      naive(a, b, c, TWO);
      std::vector<double> got;
      Expected expected = {{}, {}, k * (is_complex(dtype) ? 2 : 1)};
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j)
          for (int part = 0; part < (is_complex(dtype) ? 2 : 1); ++part) {
            Wide value = 0, scale = 0;
            const auto add = [&](Wide x, Wide y) { value += x * y, scale += magnitude(x * y); };
            for (int64_t p = 0; p < k; ++p) {
              const char *x = a.at(0, i, p), *y = b.at(0, p, j);
              add(number(dtype, x), number(dtype, y, part));
              if (is_complex(dtype))
                add((part == 0 ? -1 : 1) * number(dtype, x, 1), number(dtype, y, 1 - part));
            }
            got.push_back(number(dtype, c.at(0, i, j), part));
            expected.value.push_back(value);
            expected.scale.push_back(scale);
          }
      const Rounding rounding = dtype == DType::Float16                             ? FLOAT16
                                : dtype == DType::BFloat16                          ? BFLOAT16
                                : size_of(dtype) / (is_complex(dtype) ? 2 : 1) == 4 ? FLOAT32
                                                                                    : FLOAT64;
      EXPECT_EQ(gate_any(got, expected, rounding), "") << name_of(dtype) << " " << k;
      // Halves here are not normal, but zero-mean and of one scale, which is what counts.
      EXPECT_EQ(gate_normal(got, expected, rounding), "") << name_of(dtype) << " " << k;
    }
}

TEST_P(Core, NaiveIntegersWrap) {
  const auto check = [&](DType dtype, auto zero) {
    using T = decltype(zero);
    Matrix a(dtype, 1, 5, 50, Layout::Rows), b(dtype, 1, 50, 6, Layout::Rows);
    Matrix c(dtype, 1, 5, 6, Layout::Rows);
    fill(a, 5);
    fill(b, 6);
    naive(a, b, c, ONE);
    for (int64_t i = 0; i < 5; ++i)
      for (int64_t j = 0; j < 6; ++j) {
        unsigned __int128 sum = 0;
        for (int64_t k = 0; k < 50; ++k)
          sum += static_cast<unsigned __int128>(*reinterpret_cast<T*>(a.at(0, i, k))) *
                 static_cast<unsigned __int128>(*reinterpret_cast<T*>(b.at(0, k, j)));
        EXPECT_EQ(*reinterpret_cast<T*>(c.at(0, i, j)), static_cast<T>(sum)) << name_of(dtype);
      }
  };
  check(DType::Int8, int8_t{});
  check(DType::UInt8, uint8_t{});
  check(DType::Int16, int16_t{});
  check(DType::Int32, int32_t{});
  check(DType::Int64, int64_t{});
}

// Exact, the largest and smallest numbers among them, and wrapped only past 32 bits. Poison, which
// is -91 or 165, is around what is read.
TEST_P(Core, SumsOfBytesAreKeptWhole) {
  const auto check = [&](DType dtype, auto zero, int64_t m, int64_t n, int64_t k) {
    using T = decltype(zero);
    for (const bool extreme : {false, true}) {
      Matrix a(dtype, 2, m, k, Layout::PaddedRows), b(dtype, 2, k, n, Layout::PaddedColumns);
      Matrix c(DType::Int32, 2, m, n, Layout::Rows);
      fill(a, 5);
      fill(b, 6);
      const T value = std::is_signed_v<T> ? T(-128) : T(255);
      if (extreme)
        for (Matrix* x : {&a, &b}) {
          x->poison();
          for (int64_t e = 0; e < 2; ++e)
            for (int64_t i = 0; i < x->rows; ++i)
              for (int64_t j = 0; j < x->cols; ++j) std::memcpy(x->at(e, i, j), &value, 1);
        }
      for (const bool is_naive : {true, false}) {
        is_naive ? naive(a, b, c, TWO) : blocked(a, b, c, TWO);
        for (int64_t e = 0; e < 2; ++e)
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
              int64_t sum = 0;
              for (int64_t p = 0; p < k; ++p)
                sum += int64_t{*reinterpret_cast<T*>(a.at(e, i, p))} *
                       *reinterpret_cast<T*>(b.at(e, p, j));
              ASSERT_EQ(*reinterpret_cast<int32_t*>(c.at(e, i, j)), static_cast<int32_t>(sum))
                  << name_of(dtype) << (is_naive ? " naive " : " blocked ") << m << " x " << n
                  << " x " << k << (extreme ? ", extreme" : "");
            }
      }
    }
  };
  for (const auto& [m, n, k] : {std::array{5, 6, 50},
                                {1, 40, 0},
                                {1, 70, 1000},
                                {40, 35, 129},
                                {2, 3, 4097},
                                {3, 17, 33100},
                                {2, 2, 70000}}) {
    check(DType::Int8, int8_t{}, m, n, k);
    check(DType::UInt8, uint8_t{}, m, n, k);
  }
}

TEST_P(Core, BlockedEqualsNaiveInEveryDType) {
  for (int d = 0; d < DTYPE_COUNT; ++d)
    for (const auto& [m, n, k] : SIZES) expect_same(static_cast<DType>(d), 1, m, n, k);
}

TEST_P(Core, BlockedEqualsNaiveInEveryLayout) {
  constexpr Layout ALL[] = {Layout::Rows,          Layout::Columns,    Layout::PaddedRows,
                            Layout::PaddedColumns, Layout::EveryOther, Layout::Backwards};
  for (int d = 0; d < DTYPE_COUNT; ++d) {
    const DType dtype = static_cast<DType>(d);
    for (const Layout a : ALL)
      for (const Layout b : ALL) {
        expect_same(dtype, 2, 37, 41, 43, a, b);
        expect_same(dtype, 1, 1, 70, 35, a, b);
        expect_same(dtype, 1, 33, 1, 50, a, b);
      }
    for (const Layout c : ALL) {
      expect_same(dtype, 3, 19, 45, 22, Layout::Rows, Layout::Columns, c);
      expect_same(dtype, 1, 1, 45, 22, Layout::Rows, Layout::Rows, c);
      expect_same(dtype, 1, 45, 1, 22, Layout::Columns, Layout::Rows, c);
    }
    expect_same(dtype, 2, 21, 40, 25, Layout::OneRow, Layout::OneRow, Layout::PaddedRows);
  }
}

// Blocks of K within one chain, and within each segment of a K that is cut.
TEST_P(Core, BlockedEqualsNaiveOverBlocksAndSegments) {
  for (int d = 0; d < DTYPE_COUNT; ++d)
    for (const Layout c : {Layout::Rows, Layout::Columns, Layout::EveryOther}) {
      const DType dtype = static_cast<DType>(d);
      for (const int64_t k : {4095, 4096, 4097, 9000})
        expect_same(dtype, 1, 18, 40, k, Layout::Rows, Layout::Rows, c);
      for (const int64_t k : {32767, 32768})
        expect_same(dtype, 1, 2, 17, k, Layout::Rows, Layout::Rows, c);
      expect_same(dtype, 1, 13, 18, 36870, Layout::Rows, Layout::Rows, c);
    }
}

// Several cache blocks in every direction.
TEST_P(Core, BlockedEqualsNaiveInLargerProducts) {
  for (const DType dtype :
       {DType::Float32, DType::Float64, DType::BFloat16, DType::Complex64, DType::UInt8}) {
    expect_same(dtype, 1, 700, 90, 600);
    expect_same(dtype, 1, 90, 1300, 513, Layout::Columns, Layout::Columns);
  }
  // Few rows against columns of neighbours, and a B that streams from memory.
  for (const DType dtype : {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16}) {
    for (const int64_t m : {2, 3, 5, 8, 9})
      for (const int64_t k : {4130, 9001, 36870})
        expect_same(dtype, 1, m, 43, k, Layout::Rows, Layout::Columns);
    expect_same(dtype, 1, 3, 1100, 4200);
    expect_same(dtype, 1, 3, 130, 36870);
  }
  expect_same(DType::Float16, 1, 1100, 1100, 300, Layout::Rows, Layout::Rows, Layout::Columns);
}

TEST_P(Core, BlockedEqualsNaiveUnrounded) {
  for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Int8, DType::UInt8})
    for (const auto& [m, n, k] : SIZES)
      for (const Layout c : {Layout::Rows, Layout::Columns})
        expect_same(dtype, 1, m, n, k, Layout::Rows, Layout::Rows, c, true);
}

TEST_P(Core, BlockedEqualsNaiveInSumsOfBytes) {
  constexpr Layout ALL[] = {Layout::Rows,          Layout::Columns,    Layout::PaddedRows,
                            Layout::PaddedColumns, Layout::EveryOther, Layout::Backwards};
  for (const DType dtype : {DType::Int8, DType::UInt8}) {
    for (const Layout a : ALL)
      for (const Layout b : ALL)
        for (const Layout c : {Layout::Rows, Layout::Columns, Layout::EveryOther}) {
          expect_same(dtype, 2, 37, 41, 43, a, b, c, true);
          expect_same(dtype, 1, 1, 70, 36, a, b, c, true);
          expect_same(dtype, 1, 33, 1, 52, a, b, c, true);
        }
    for (const int64_t k : {4095, 9000, 32768, 36870})
      expect_same(dtype, 1, 18, 40, k, Layout::Rows, Layout::Columns, Layout::EveryOther, true);
    expect_same(dtype, 1, 90, 1300, 513, Layout::Columns, Layout::Columns, Layout::Rows, true);
    expect_same(dtype, 1, 3, 1100, 4200, Layout::Rows, Layout::Rows, Layout::Rows, true);
  }
}

// Tables that nobody fitted: every number halved or doubled several times, some of them none.
TEST_P(Core, NoNumberOfATableChangesABit) {
  struct Restored {
    int64_t numbers[cpu::NUMBER_COUNT][cpu::COLUMN_COUNT];
    Restored() { std::memcpy(numbers, cpu::budgets, sizeof numbers); }
    ~Restored() { std::memcpy(cpu::budgets, numbers, sizeof numbers); }
  } const shipped;
  std::mt19937 draw(52);
  for (int table = 0; table < 60; ++table) {
    for (int number = 0; number < cpu::NUMBER_COUNT; ++number)
      for (int column = 0; column < cpu::COLUMN_COUNT; ++column) {
        const int64_t value = shipped.numbers[number][column];
        cpu::budgets[number][column] = draw() % 4 == 0 ? 0 : (value << draw() % 4) >> draw() % 10;
      }
    const DType dtypes[] = {DType::Float32,  DType::Float64, DType::Float16,
                            DType::BFloat16, DType::Int8,    DType::Complex64};
    const Layout layouts[] = {Layout::Rows, Layout::Columns, Layout::PaddedRows,
                              Layout::PaddedColumns};
    const auto size = [&](int64_t most) { return 1 + static_cast<int64_t>(draw()) % most; };
    const int64_t sizes[] = {size(60), size(300), size(600)};
    expect_same(dtypes[table % 6], 1, sizes[table % 3], sizes[(table + 1) % 3],
                sizes[(table + 2) % 3], layouts[draw() % 4], layouts[draw() % 4],
                draw() % 4 ? Layout::Rows : Layout::Columns);
    if (HasFailure()) return;
  }
}

TEST_P(Core, SlicesKeepTheirBits) {
  for (const DType dtype : FLOATS) expect_slices_keep_their_bits(dtype, 60, 150, 300);
}

INSTANTIATE_TEST_SUITE_P(Levels, Core, testing::ValuesIn(cpu::available_levels()),
                         [](const auto& info) { return std::string(info.param->name); });

// A level whose threads set themselves up before their tiles and whose first tile throws, as memory
// for packing that is not to be had would.
int set_up = 0;

TEST(SetUp, IsTakenDownWhereARegionThrows) {
  cpu::ChainTable chains = *cpu::available_levels().front()->chains;
  cpu::Kernels& kernels = chains.kernels[static_cast<int>(cpu::Accumulator::Float32)];
  kernels.begin = [] { ++set_up; };
  kernels.end = [] { --set_up; };
  for (auto& row : kernels.tile)
    for (cpu::TileKernel& tile : row) tile = [](const cpu::Tile&) { throw std::bad_alloc(); };
  cpu::Codec& codec = chains.codecs[static_cast<int>(DType::Float32)];
  codec.raw = codec.dot = nullptr;
  const cpu::Level level = {"throwing", &chains, nullptr, nullptr, nullptr, nullptr};
  Matrix a(DType::Float32, 1, 64, 64, Layout::Rows), b = a, c = a;
  EXPECT_THROW(cpu::mm_blocked(problem_of(a, b, c), ONE, level), std::bad_alloc);
  EXPECT_EQ(set_up, 0);
}

}  // namespace
}  // namespace tiled::test
