// The copies of operands in software (cuda/parts/copy/repack.cu, transpose_bytes.cu): by rows, by
// squares and, of bytes, 16 at a time, from matrices that begin anywhere and end where no memory
// follows; and of groups that share out K, each from the begin of a line.

// clang-format off: before all else, what CUDA C++ has by itself
#include "software_gpu/block.h"
// clang-format on

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

// Blocks run one after the other, so that one place is all that they need.
#undef __shared__
#define __shared__ static

#include "core/algo.h"
#include "cuda/parts/copy/repack.cu"
#include "cuda/parts/copy/transpose_bytes.cu"
#include "product_in_software.h"

namespace tiled {

Kernel<RepackArguments> transpose_kernel() { return nullptr; }

namespace detail {

cudaError_t launch(const void* kernel, const Step& step, cudaStream_t, void* argument, bool) {
  static std::mt19937 random(1);
  const auto run = reinterpret_cast<Kernel<RepackArguments>>(const_cast<void*>(kernel));
  software_gpu::run_grid(step.grid_x, step.grid_y, step.threads_x, random,
                         [&] { run(*static_cast<RepackArguments*>(argument)); });
  return cudaSuccess;
}

}  // namespace detail

namespace test {
namespace {

struct Copied {
  int64_t batch, rows, k;
  Lie lie;  // its rows are those of C
};

template <typename T>
T value_at(int64_t entry, int64_t row, int64_t k) {
  return static_cast<T>(entry * 89 + row * 37 + k * 101 + row * k);
}

// Empty if A, and B which is as large, become contiguous along K, and nothing else is written.
template <typename T>
std::string wrong_of(const Copied& t, DType dtype, CopyBy by) {
  const Matrix a(t.batch, t.rows, t.k, t.lie, sizeof(T));
  for (int64_t e = 0; e < t.batch; ++e)
    for (int64_t row = 0; row < t.rows; ++row)
      for (int64_t k = 0; k < t.k; ++k) a.at<T>(e, row, k) = value_at<T>(e, row, k);
  const int32_t alignment =
      alignment_of(a.data(), dtype, a.row_stride(), a.column_stride(), a.entry);
  Problem p{};
  p.batch = t.batch, p.m = p.n = t.rows, p.k = t.k, p.dtype = dtype;
  p.a = {a.data(), a.row_stride(), a.column_stride(), a.entry, alignment};
  p.b = {a.data(), a.column_stride(), a.row_stride(), a.entry, alignment};
  Plan plan = plan_of(Algo::Hopper, Way(), p, /*swap_ab=*/false, 64, 64, 64);
  plan.copy_p = plan.copy_q = CopyTo::AlongK;
  const Side side = side_a(p), to = copied(side, dtype, CopyTo::AlongK);
  if (copy_grid_of(side, to, p).by != by) return "it is copied in another way";
  add_copies(plan, p);
  const Guarded memory(plan.workspace_bytes, 0);
  std::memset(memory.data(), Matrix::POISON, memory.bytes());
  if (launch_copies(call_of(p, plan, memory.data()), plan.steps[0]) != cudaSuccess)
    return "it is not launched";

  constexpr int64_t VECTOR = 16 / sizeof(T);
  T poison;
  std::memset(&poison, Matrix::POISON, sizeof(T));
  const int64_t end = blocks_over(t.k, VECTOR) * VECTOR;
  for (const Area area : {Area::P, Area::Q}) {
    const T* copy = reinterpret_cast<const T*>(memory.data() + plan.at(area));
    for (int64_t e = 0; e < t.batch; ++e)
      for (int64_t row = 0; row < t.rows; ++row)
        for (int64_t k = 0; k < to.row_stride; ++k) {
          const T wanted = k < t.k ? value_at<T>(e, row, k) : k < end ? T(0) : poison;
          if (copy[e * to.batch_stride + row * to.row_stride + k] != wanted)
            return "entry " + std::to_string(e) + ", row " + std::to_string(row) + ", k " +
                   std::to_string(k);
        }
  }
  return "";
}

// Empty if every group of K of both operands stands in lines of its own, zeros behind it, for ends
// as the kernels take them; but not those that a product with scales reads where they are.
std::string wrong_of_groups(const Copied& t, const std::vector<int64_t>& ends,
                            const std::vector<int64_t>& taken, CopyBy by, bool has_scales) {
  constexpr int64_t LINE = 128;
  const Matrix a(1, t.rows, t.k, t.lie, 1);
  for (int64_t row = 0; row < t.rows; ++row)
    for (int64_t k = 0; k < t.k; ++k) a.at<uint8_t>(0, row, k) = value_at<uint8_t>(0, row, k) | 1;
  Problem p{};
  p.batch = static_cast<int64_t>(ends.size()), p.m = p.n = t.rows, p.k = t.k;
  p.dtype = DType::Float8E4M3FN;
  p.a = {a.data(), a.row_stride(), a.column_stride(), 0, 16};
  p.b = {a.data(), a.column_stride(), a.row_stride(), 0, 16};
  if (has_scales) p.scales.a.scaling = p.scales.b.scaling = Scaling::Rowwise;
  share_out(p, {Shared::K, /*wide=*/true, ends.data()});
  Plan plan = plan_of(Algo::Hopper, Way(), p, /*swap_ab=*/false, 64, 64, 64);
  plan.copy_p = plan.copy_q = CopyTo::Spaced;
  const Side side = side_a(p), to = copied(side, p.dtype, CopyTo::Spaced);
  const CopyGrid grid = copy_grid_of(side, to, p);
  if (grid.by != by || !grid.spaced) return "it is copied in another way";
  add_copies(plan, p);
  const Guarded memory(plan.workspace_bytes, 0);
  std::memset(memory.data(), Matrix::POISON, memory.bytes());
  if (launch_copies(call_of(p, plan, memory.data()), plan.steps[0]) != cudaSuccess)
    return "it is not launched";
  const bool are_left = has_scales && by == CopyBy::Rows && a.row_stride() % 16 == 0 &&
                        reinterpret_cast<intptr_t>(a.data()) % 16 == 0;
  for (const Area area : {Area::P, Area::Q}) {
    const auto* copy = reinterpret_cast<const uint8_t*>(memory.data() + plan.at(area));
    for (int64_t g = 0, begin = 0; g < p.batch; begin = taken[g++])
      for (int64_t row = 0; row < t.rows; ++row)
        for (int64_t i = 0; i < blocks_over(taken[g] - begin, LINE) * LINE; ++i) {
          const int64_t k = begin + i;
          uint8_t wanted = k < taken[g] ? value_at<uint8_t>(0, row, k) | 1 : 0;
          if (are_left && begin % 16 == 0) wanted = static_cast<uint8_t>(Matrix::POISON);
          if (copy[row * to.row_stride + (begin / LINE + g) * LINE + i] != wanted)
            return "group " + std::to_string(g) + ", row " + std::to_string(row) + ", k " +
                   std::to_string(i);
        }
  }
  return "";
}

const std::tuple<int64_t, int64_t, int64_t> SIZES[] = {
    {1, 128, 128}, {1, 256, 384}, {1, 130, 133}, {3, 17, 31},  {1, 1, 70},
    {1, 70, 1},    {2, 127, 129}, {1, 300, 20},  {1, 15, 300}, {1, 16, 257}};

// Contiguous along m: rows of the copy. Lines begin at every place of 16 bytes.
TEST(Copies, BytesAreTransposed) {
  for (const auto& [batch, rows, k] : SIZES) {
    if (rows == 1 || k == 1) continue;  // either layout is the other
    for (int before = 0; before < 16; before += 5)
      for (const int after : {0, 1, 8, 16 - static_cast<int>(rows % 16)})
        EXPECT_EQ(
            wrong_of<uint8_t>({batch, rows, k, {false, before, after}}, DType::Int8, CopyBy::Bytes),
            "")
            << batch << " x " << rows << " x " << k << ", " << before << ", " << after;
  }
}

// The same of fp8, which is copied as other bytes are.
TEST(Copies, OfFp8) {
  EXPECT_EQ(wrong_of<uint8_t>({1, 200, 150, {false, 3, 5}}, DType::Float8E4M3FN, CopyBy::Bytes),
            "");
}

TEST(Copies, RowsThatBeginAnywhere) {
  for (const auto& [batch, rows, k] : SIZES) {
    if (k == 1) continue;
    for (int before = 0; before < 16; before += 5)
      EXPECT_EQ(wrong_of<uint8_t>({batch, rows, k, {true, before, 3}}, DType::UInt8, CopyBy::Rows),
                "")
          << batch << " x " << rows << " x " << k << ", " << before;
    EXPECT_EQ(wrong_of<uint16_t>({batch, rows, k, {true, 3, 1}}, DType::Int16, CopyBy::Rows), "");
    EXPECT_EQ(wrong_of<uint32_t>({batch, rows, k, {true, 1, 2}}, DType::Int32, CopyBy::Rows), "");
  }
}

TEST(Copies, WhatHasNoStrideOfOne) {
  for (const bool along_rows : {true, false})
    EXPECT_EQ(wrong_of<uint8_t>({2, 70, 90, {along_rows, 1, 2, 3}}, DType::Int8, CopyBy::Squares),
              "");
}

struct Ends {
  int64_t k;
  std::vector<int64_t> ends, taken;
};

TEST(Copies, GroupsOfKBeginLines) {
  const std::pair<Lie, CopyBy> lies[] = {{{true, 7, 3}, CopyBy::Rows},
                                         {{false, 5, 6}, CopyBy::Bytes},
                                         {{true, 1, 2, 3}, CopyBy::Squares}};
  for (const auto& [lie, by] : lies)
    for (const bool has_scales : {false, true})
      EXPECT_EQ(wrong_of_groups({1, 40, 300, lie}, {40, 40, 170, 290}, {40, 40, 170, 290}, by,
                                has_scales),
                "");
}

TEST(Copies, GroupsOfKWithAnyEnds) {
  std::vector<int64_t> many;  // more groups than a warp has lanes
  for (int64_t g = 1; g <= 40; ++g) many.push_back(std::min<int64_t>(g * g / 8, 160));
  const Ends all[] = {{512, {128, 128, 384, 512}, {128, 128, 384, 512}},
                      {704, {0, 0, 129, 130, 500}, {0, 0, 129, 130, 500}},
                      {100, {100}, {100}},
                      {400, {300, -7, 1000, 20}, {300, 300, 400, 400}},  // no ends of groups
                      {160, many, many}};
  for (const auto& [k, ends, taken] : all)
    for (const bool has_scales : {false, true})
      EXPECT_EQ(wrong_of_groups({1, 3, k, {true}}, ends, taken, CopyBy::Rows, has_scales), "")
          << k << ", " << ends.size() << " groups";
}

}  // namespace
}  // namespace test
}  // namespace tiled
