// Segments of a deep K that blocks share out: which plans do it, their kernels, and where the sums
// wait.
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/plan/sums.h"
#include "planned.h"

namespace tiled::test {
namespace {

constexpr Algo SHARING[] = {Algo::RegisterTile, Algo::MmaTile, Algo::Hopper, Algo::FewRows,
                            Algo::AsyncMma};

Problem any_problem(const std::string& layout, int64_t m, int64_t n, int64_t k, DType dtype,
                    bool tensor) {
  return tensor ? tensor_problem(layout, m, n, k, dtype) : problem_of(layout, m, n, k, dtype);
}

void expect_sound(const Problem& p, const Plan& plan) {
  const SumsLayout layout = sums_layout(p);
  const Step &product = plan.main_step(), &sums = plan.end()[-1];
  EXPECT_EQ(&product + 1, &sums);
  EXPECT_EQ(product.work, Work::Product);
  EXPECT_EQ(product.workspace_bytes, layout.bytes(p.batch));
  EXPECT_EQ(sums.workspace_bytes, 0);
  int64_t bytes = 0;
  for (const Step& step : plan) bytes += step.workspace_bytes;
  EXPECT_EQ(plan.workspace_bytes, bytes);
  EXPECT_LE(plan.step_count, Plan::MOST_STEPS);
  // Blocks for every segment, or some that stay until all are done.
  const bool stays = plan.algo == Algo::Hopper || plan.algo == Algo::FewRows;
  if (!stays) {
    EXPECT_EQ(product.grid_x, plan.tiles_m * plan.tiles_n);
    EXPECT_EQ(product.grid_y, std::min(p.batch * layout.segments, MAX_GRID_Y));
  }
}

TEST(SharedSegments, PlansAreSound) {
  int found[std::size(ALL_ALGOS)] = {};
  for (const char* name : {"h200", "h100-pcie", "a100", "rtx4090"})
    for (const DType dtype : ALL_DTYPES)
      for (const bool tensor : {false, true})
        for (const std::string layout : {"nn", "nt", "tn"})
          for (const auto& [m, n, k] :
               {std::tuple{1, 1, 32768}, {64, 64, 32769}, {3, 200, 40967}, {129, 130, 36864}})
            for (const int batch : {1, 3}) {
              if (tensor && std::find(std::begin(TENSOR_DTYPES), std::end(TENSOR_DTYPES), dtype) ==
                                std::end(TENSOR_DTYPES))
                continue;
              Problem p = any_problem(layout, m, n, k, dtype, tensor);
              p.batch = batch;
              for (const Algo algo : SHARING)
                for (const Plan& plan : plans_of(algo, p, device(name))) {
                  SCOPED_TRACE(std::string(name) + " " + name_of(dtype) + " " + layout + " " +
                               std::to_string(m) + " " + std::to_string(k));
                  if (!is_split_k(plan)) continue;
                  expect_sound(p, plan);
                  ++found[static_cast<int>(algo)];
                }
            }
  for (const Algo algo : SHARING) EXPECT_GT(found[static_cast<int>(algo)], 0) << name_of(algo);
}

TEST(SharedSegments, NoneWhereThereIsOne) {
  for (const DType dtype : {DType::Float32, DType::Float64, DType::BFloat16})
    for (const int64_t k : {int64_t{0}, int64_t{1}, DEEP_K - 1})
      for (const Algo algo : SHARING) {
        const bool tensor = dtype == DType::BFloat16;
        const Problem p = any_problem("nn", 64, 64, k, dtype, tensor);
        for (const Plan& plan : plans_of(algo, p, device("h200")))
          EXPECT_FALSE(is_split_k(plan)) << name_of(algo) << k;
      }
}

// A small C of a deep K does not fill the GPU otherwise; a large one does, and its sums would take
// more memory than they gain.
TEST(SharedSegments, AreOfferedForASmallC) {
  const auto offers = [](const Problem& p, const char* name) {
    const DeviceInfo d = device(name);
    return std::any_of(std::begin(SHARING), std::end(SHARING), [&](Algo algo) {
      const std::vector<Plan> plans = plans_of(algo, p, d);
      return std::any_of(plans.begin(), plans.end(), is_split_k);
    });
  };
  for (const DType dtype : {DType::Float32, DType::Float64, DType::BFloat16})
    for (const std::string layout : {"nn", "nt", "tn"}) {
      const bool tensor = dtype == DType::BFloat16;
      for (const int64_t size : {1, 16, 64, 96, 256})
        EXPECT_TRUE(offers(any_problem(layout, size, size, 65536, dtype, tensor), "h200"))
            << name_of(dtype) << layout << size;
      EXPECT_FALSE(offers(any_problem(layout, 8192, 8192, DEEP_K, dtype, tensor), "h200"))
          << name_of(dtype) << layout;
    }
  // GPUs without Hopper's kernels have the same.
  EXPECT_TRUE(offers(problem_of(64, 64, 65536), "a100"));
  EXPECT_TRUE(offers(tensor_problem("nt", 64, 64, 65536), "a100"));
  EXPECT_TRUE(offers(problem_of(64, 64, 65536, DType::Float64), "t4"));
}

// No more than half of the operands' bytes, or a mebibyte.
TEST(SharedSegments, TheirSumsAreBounded) {
  for (const int64_t size : {1, 64, 1024, 4096, 16384, 1 << 20})
    for (const int64_t k : {DEEP_K, int64_t{1} << 20, int64_t{1} << 40})
      for (const DType dtype : ALL_DTYPES) {
        const Problem p = problem_of(size, size, k, dtype);
        if (!may_split_k(p)) continue;
        const double operands =
            2. * static_cast<double>(size * size_of(dtype)) * static_cast<double>(k);
        const double sums = static_cast<double>(sums_layout(p).bytes(1));
        EXPECT_LE(sums, std::max(1048576., operands / 2)) << size << ' ' << k;
      }
  EXPECT_TRUE(may_split_k(problem_of(1024, 1024, DEEP_K)));
  EXPECT_FALSE(may_split_k(problem_of(1 << 16, 1 << 16, DEEP_K)));
  EXPECT_FALSE(may_split_k(problem_of(0, 64, DEEP_K)));
}

// The sums have C's layout, a segment's after all entries of the one before, 16 bytes apart at
// least.
TEST(SharedSegments, WhereTheSumsLie) {
  for (const DType dtype : ALL_DTYPES)
    for (const bool along_m : {false, true}) {
      Problem p = problem_of(5, 7, 40967, dtype, 3);
      if (along_m) p.c.row_stride = 1, p.c.col_stride = 5;
      p.epilogue.activation = Activation::Relu;
      const SumsLayout layout = sums_layout(p);
      const Problem sums = problem_of_sums(p, layout, nullptr);
      EXPECT_EQ(sums.c.row_stride, along_m ? 1 : 8);
      EXPECT_EQ(sums.c.col_stride, along_m ? 8 : 1);
      EXPECT_EQ(sums.c.batch_stride, along_m ? 7 * 8 : 5 * 8);
      EXPECT_EQ(sums.c.batch_stride * accumulator_bytes(dtype) % 16, 0);
      EXPECT_TRUE(sums.epilogue.is_identity());
      EXPECT_EQ(size_of(sums.epilogue.out_dtype), accumulator_bytes(dtype));
      EXPECT_EQ(layout.bytes(3), 3 * 11 * sums.c.batch_stride * accumulator_bytes(dtype));
    }
}

}  // namespace
}  // namespace tiled::test
