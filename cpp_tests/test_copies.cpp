// The copies of operands in software (cuda/parts/repack.cu, transpose_bytes.cu): by rows, by
// squares and, of bytes, 16 at a time, from matrices that begin anywhere and end where no memory
// follows.

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
#include "cuda/parts/repack.cu"
#include "cuda/parts/transpose_bytes.cu"
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
  Plan plan = plan_of(Algo::Hopper, Way(), p, /*exchanged=*/false, 64, 64, 64);
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

}  // namespace
}  // namespace test
}  // namespace tiled
