// Products by one instruction level of the CPU, whose blocked way is held to its three loops.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "matrices.h"

namespace tiled::test {

template <int THREADS>
void run_threads(int64_t count, cpu::Body body, void* state) {
  std::vector<std::thread> team;
  for (int t = 0; t < THREADS; ++t) {
    const int64_t begin = count * t / THREADS, end = count * (t + 1) / THREADS;
    if (begin < end) team.emplace_back(body, state, begin, end);
  }
  for (std::thread& thread : team) thread.join();
}
constexpr cpu::ParallelFor ONE = {
    [](int64_t count, cpu::Body body, void* state) { body(state, 0, count); }, 1};
constexpr cpu::ParallelFor TWO = {run_threads<2>, 2};
constexpr cpu::ParallelFor SEVEN = {run_threads<7>, 7};

class OnLevel : public testing::TestWithParam<const cpu::Level*> {
 protected:
  void blocked(const Matrix& a, const Matrix& b, Matrix& c, const cpu::ParallelFor& p = ONE) {
    c.poison();
    cpu::mm_blocked(problem_of(a, b, c), p, *GetParam());
  }
  void naive(const Matrix& a, const Matrix& b, Matrix& c, const cpu::ParallelFor& p = ONE) {
    c.poison();
    cpu::mm_naive(problem_of(a, b, c), p, *GetParam());
  }

  // Blocked against naive, all bits, the memory between elements included; any thread count.
  void expect_same(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k,
                   Layout layout_a = Layout::Rows, Layout layout_b = Layout::Rows,
                   Layout layout_c = Layout::Rows, bool unrounded = false) {
    Matrix a(dtype, batch, m, k, layout_a), b(dtype, batch, k, n, layout_b);
    const DType out = !unrounded ? dtype : size_of(dtype) == 1 ? DType::Int32 : DType::Float32;
    Matrix c(out, batch, m, n, layout_c), reference(out, batch, m, n, layout_c);
    fill(a, 1);
    fill(b, 2);
    naive(a, b, reference, TWO);
    for (const cpu::ParallelFor* parallel : {&ONE, &TWO, &SEVEN}) {
      blocked(a, b, c, *parallel);
      ASSERT_EQ(std::memcmp(c.memory->data(), reference.memory->data(), c.bytes), 0)
          << name_of(dtype) << " " << batch << " x " << m << " x " << n << " x " << k << " layouts "
          << static_cast<int>(layout_a) << static_cast<int>(layout_b) << static_cast<int>(layout_c)
          << " threads " << parallel->threads;
    }
  }

  void expect_slices_keep_their_bits(DType dtype, int64_t m, int64_t n, int64_t k) {
    Matrix a(dtype, 1, m, k, Layout::Rows), b(dtype, 1, k, n, Layout::Rows);
    Matrix whole(dtype, 1, m, n, Layout::Rows), slice(dtype, 1, m, n, Layout::Rows);
    fill(a, 7);
    fill(b, 8);
    blocked(a, b, whole, TWO);
    for (const auto& [i, j, rows, cols] : {std::array<int64_t, 4>{0, 0, 1, n},
                                           {m - 1, 3, 1, 1},
                                           {7, 0, 13, n},
                                           {0, 5, m, 33},
                                           {3, 1, 40, 17}}) {
      slice.poison();
      Problem p = problem_of(a, b, slice);
      p.a.data = a.at(0, i, 0);
      p.b.data = b.at(0, 0, j);
      p.m = rows;
      p.n = cols;
      cpu::mm_blocked(p, ONE, *GetParam());
      for (int64_t r = 0; r < rows; ++r)
        ASSERT_EQ(std::memcmp(slice.at(0, r, 0), whole.at(0, i + r, j), cols * size_of(dtype)), 0)
            << name_of(dtype) << " rows " << i << " + " << rows << ", columns " << j;
    }
  }
};

}  // namespace tiled::test
