// Rung async_mma with groups in software: small integers, whose sums are exact, by every way. What
// is no group's in the operands is NaN, and memory ends where they do.
#include <gtest/gtest.h>

// clang-format off: before all else, what CUDA C++ has by itself
#include "async_mma_in_software.h"
// clang-format on

#include <tuple>

namespace tiled::test {
namespace {

using T = __nv_bfloat16;
constexpr int64_t P = 70, Q = 41, TOTAL = 150;  // the sizes that are not shared out, and the other
constexpr int32_t ENDS[] = {0, 5, 5, 80, 79, 131};  // a group is empty where ends decrease
constexpr int GROUPS = std::size(ENDS);

struct Sizes {
  int64_t m, n, k;
};

Sizes sizes_of(Shared shared) {
  switch (shared) {
    case Shared::M: return {TOTAL, P, Q};
    case Shared::N: return {P, TOTAL, Q};
    default: return {P, Q, TOTAL};
  }
}

// Begin and end of each group, as they count.
std::vector<std::pair<int64_t, int64_t>> spans() {
  std::vector<std::pair<int64_t, int64_t>> found;
  int64_t begin = 0;
  for (const int64_t end : ENDS) {
    found.emplace_back(begin, std::max(begin, end));
    begin = found.back().second;
  }
  return found;
}

class AsyncMmaGroups : public ::testing::TestWithParam<std::tuple<Shared, bool, bool>> {};

TEST_P(AsyncMmaGroups, AreEachAProduct) {
  const auto [shared, a_along_rows, b_along_rows] = GetParam();
  const bool of_m = shared == Shared::M, of_n = shared == Shared::N, of_k = shared == Shared::K;
  const auto [m, n, k] = sizes_of(shared);
  const Matrix a(of_n ? GROUPS : 1, m, k, {a_along_rows}, 2);
  const Matrix b(of_m ? GROUPS : 1, k, n, {b_along_rows}, 2);
  std::mt19937 random(7);
  const auto number = [&] { return T(static_cast<float>(static_cast<int>(random() % 5) - 2)); };
  int group = 0;
  for (const auto& [begin, end] : spans()) {
    const int64_t a_rows = of_m ? begin : 0, a_end = of_m ? end : m;
    for (int64_t i = a_rows; i < a_end; ++i)
      for (int64_t l = of_k ? begin : 0; l < (of_k ? end : k); ++l)
        a.at<T>(of_n ? group : 0, i, l) = number();
    for (int64_t l = of_k ? begin : 0; l < (of_k ? end : k); ++l)
      for (int64_t j = of_n ? begin : 0; j < (of_n ? end : n); ++j)
        b.at<T>(of_m ? group : 0, l, j) = number();
    ++group;
  }
  Problem problem{};
  problem.batch = GROUPS, problem.m = m, problem.n = n, problem.k = k;
  problem.dtype = problem.epilogue.out_dtype = DType::BFloat16;
  problem.arithmetic = Arithmetic::Tensor;
  const auto lies = [](const Matrix& x, int64_t entry) {
    return alignment_of(x.data(), DType::BFloat16, x.row_stride(), x.column_stride(), entry);
  };
  const int64_t a_entry = of_n ? a.entry : 0, b_entry = of_m ? b.entry : 0;
  problem.a = {a.data(), a.row_stride(), a.column_stride(), a_entry, lies(a, a_entry)};
  problem.b = {b.data(), b.row_stride(), b.column_stride(), b_entry, lies(b, b_entry)};
  share_out(problem, {shared, /*wide=*/false, ENDS});

  int ways = 0;
  const DeviceInfo device = *named_device("h200");
  rung_of(Algo::AsyncMma)->ways(problem, device, [&](const Way& found) {
    const AsyncMmaWay way = found.as<AsyncMmaWay>();
    const Matrix c(of_k ? GROUPS : 1, m, n, {true}, 2);
    const int64_t c_entry = of_k ? c.entry : 0;
    problem.c = {c.data(), c.row_stride(), 1, c_entry, lies(c, c_entry)};
    const Plan plan = rung_of(Algo::AsyncMma)->plan(problem, device, found);
    const AsyncMmaArguments arguments = {
        {async_mma_problem(problem, way), nullptr, false}, way.a, way.b};
    const auto kernel = async_mma_of<T>(arguments.problem, way.tile);
    // Fewer blocks than tiles, so that they go from one to the next.
    software_gpu::run_grid(3, 1, plan.main_step().threads_x, random, [&] { kernel(arguments); });
    group = 0;
    int64_t last = 0;
    for (const auto& [begin, end] : spans()) {
      for (int64_t i = of_m ? begin : 0; i < (of_m ? end : m); ++i)
        for (int64_t j = of_n ? begin : 0; j < (of_n ? end : n); ++j) {
          float sum = 0;
          for (int64_t l = of_k ? begin : 0; l < (of_k ? end : k); ++l)
            sum += static_cast<float>(a.at<T>(of_n ? group : 0, i, l)) *
                   static_cast<float>(b.at<T>(of_m ? group : 0, l, j));
          const float wanted = static_cast<float>(T(sum));
          ASSERT_EQ(static_cast<float>(c.at<T>(of_k ? group : 0, i, j)), wanted)
              << async_mma_tile_name(way.tile) << " group " << group << ": " << i << ", " << j;
        }
      last = end, ++group;
    }
    for (int64_t i = of_m ? last : m; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) ASSERT_EQ(static_cast<float>(c.at<T>(0, i, j)), 0);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = of_n ? last : n; j < n; ++j)
        ASSERT_EQ(static_cast<float>(c.at<T>(0, i, j)), 0);
    EXPECT_TRUE(c.is_untouched_around(of_k ? GROUPS : 1));
    ++ways;
  });
  EXPECT_GE(ways, 2);
}

INSTANTIATE_TEST_SUITE_P(Forms, AsyncMmaGroups,
                         ::testing::Combine(::testing::Values(Shared::M, Shared::N, Shared::K),
                                            ::testing::Bool(), ::testing::Bool()));

}  // namespace
}  // namespace tiled::test
