// Rung mma_tile's kernels of 16 bits and tf32 in software: both tiles, every layout and alignment,
// beside exact sums.
#include <gtest/gtest.h>

// clang-format off: before all else, what CUDA C++ has by itself
#include "rung_in_software.h"
// clang-format on

// Blocks run one after the other, so that one place is all that they need.
#undef __shared__
#define __shared__ static

#include "cuda/engine/mma_tile/way.h"
#include "cuda/lessons/4_mma_tile/mma_tile.cu"

namespace tiled {
namespace {

using namespace test;

template <typename T>
void expect_right(const Product& p) {
  const auto run = [](const Problem& problem, const MmaWay& way, const Step& step, void*,
                      std::mt19937& random) {
    const auto kernel = mma_tile_kernel(problem, way.tile);
    software_gpu::run_grid(step.grid_x, step.grid_y, step.threads_x, random,
                           [&] { kernel(problem); });
  };
  constexpr Arithmetic ARITHMETIC = sizeof(T) == 4 ? Arithmetic::Tf32 : Arithmetic::Tensor;
  std::string wrong;
  EXPECT_EQ((count_right_ways_of<T, MmaWay>(
                Algo::MmaTile, ARITHMETIC, p, /*seed=*/1, *named_device("h200"),
                [](const MmaWay&) { return true; }, run, wrong)),
            MmaTiles::COUNT)
      << wrong << "  (" << p.m << " x " << p.n << " x " << p.k << ")";
}
void expect_all_right(const Product& p) {
  expect_right<__nv_bfloat16>(p);
  expect_right<__half>(p);
  expect_right<float>(p);
}

TEST(MmaTileValues, EveryLayoutAndAlignment) {
  for (const bool a_rows : {true, false})
    for (const bool b_rows : {true, false}) expect_all_right(sized(70, 35, 67, a_rows, b_rows));
  for (const Lie& lie : {Lie{true, 1, 0}, Lie{false, 3, 1}, Lie{true, 0, 5}, Lie{true, 1, 1, 2}}) {
    Product p = sized(33, 65, 43);
    p.a = p.b = p.c = lie;
    expect_all_right(p);
  }
}

TEST(MmaTileValues, SmallSizesAndNoK) {
  for (const int64_t m : {1, 16, 33})
    for (const int64_t n : {1, 31, 64})
      for (const int64_t k : {0, 1, 15, 64, 130}) expect_all_right(sized(m, n, k));
}

TEST(MmaTileValues, EpilogueAndBatch) {
  Product p = sized(37, 50, 40);
  p.bias_along = Along::N, p.activation = Activation::Relu, p.batch = 3;
  expect_all_right(p);
  p.unrounded = true;
  expect_all_right(p);
}

}  // namespace
}  // namespace tiled
