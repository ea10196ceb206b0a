// A thread remembers its choices: a program that has many products in turn, as the layers
// of a model are, chooses for each of them once.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "cuda/plan/current_rules.h"
#include "planned.h"

namespace tiled::test {
namespace {

// Linear layers of a few models in bf16: [rows, K] by the transpose of a weight [N, K].
std::vector<Problem> layers() {
  std::vector<Problem> found;
  for (const int64_t rows : {1, 16, 64, 4096})
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{6144, 2048},
                               {2048, 2048},
                               {8192, 2048},
                               {2048, 8192},
                               {512, 2048},
                               {5504, 2048},
                               {2048, 5504},
                               {4000, 2048},
                               {4096, 4096},
                               {14336, 4096},
                               {4096, 14336},
                               {1024, 4096},
                               {32000, 4096},
                               {768, 768},
                               {3072, 768},
                               {768, 3072}}) {
      Problem p{};
      p.batch = 1, p.m = rows, p.n = n, p.k = k;
      p.dtype = p.epilogue.out_dtype = DType::BFloat16;
      p.arithmetic = Arithmetic::Tensor;
      p.a = {nullptr, k, 1, 0, 16}, p.b = {nullptr, 1, k, 0, 16}, p.c = {nullptr, n, 1, 0, 16};
      found.push_back(p);
    }
  return found;
}

template <typename Function>
double seconds_of(Function call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The least of several rounds, in which something else may have the processor now and then. A
// choice takes a thousand times as long as to remember one.
TEST(PlanMemory, EveryProductOfAModelIsChosenOnce) {
  const DeviceInfo h100 = device("h100");
  const std::vector<Problem> problems = layers();
  std::vector<double> least(problems.size(), std::numeric_limits<double>::infinity());
  for (int round = 0; round < 6; ++round)
    for (size_t i = 0; i < problems.size(); ++i) {
      const double seconds = seconds_of([&] { make_plan(problems[i], h100); });
      if (round > 0) least[i] = std::min(least[i], seconds);
    }
  for (size_t i = 0; i < problems.size(); ++i) {
    double choice = std::numeric_limits<double>::infinity();
    for (int round = 0; round < 3; ++round)
      choice = std::min(choice, seconds_of([&] {
                          choose(problems[i], h100, *current_rules(h100), /*asked=*/nullptr);
                        }));
    EXPECT_LT(least[i], choice / 4)
        << problems[i].m << " x " << problems[i].n << " x " << problems[i].k;
  }
}

TEST(PlanMemory, IsOfTheProblemThatIsAsked) {
  const DeviceInfo h100 = device("h100");
  const std::vector<Problem> problems = layers();
  for (int round = 0; round < 2; ++round)
    for (const Problem& problem : problems) {
      const Plan kept = make_plan(problem, h100);
      const Plan chosen = choose(problem, h100, *current_rules(h100), /*asked=*/nullptr).plan;
      EXPECT_EQ(kept.algo, chosen.algo);
      EXPECT_EQ(name_of_way(problem, kept), name_of_way(problem, chosen));
      EXPECT_EQ(kept.tiles_m * kept.tiles_n, chosen.tiles_m * chosen.tiles_n);
    }
}

}  // namespace
}  // namespace tiled::test
