// A rung's kernels on the CPU (software_gpu/block.h), by every way that its planner offers for a
// product, beside sums in the order of its chains. Where the order of the hardware's is another,
// the data are small integers, whose sums are exact in any. Operands end where no memory follows,
// so that what is read past them is noticed.
#pragma once

// clang-format off: before all else, what CUDA C++ has by itself
#include "product_in_software.h"
// clang-format on

#include <cmath>
#include <exception>
#include <string>

#include "core/finish.h"
#include "core/segments.h"
#include "cuda/parts/arithmetic/element.cuh"
#include "cuda/plan/rung.h"
#include "cuda/plan/tree_pass.h"

namespace tiled {
namespace test {

// A number: any byte; of chains of fused multiply-adds a fraction; and else a small integer, which
// tf32 has when it rounds, but not when it cuts off. And what the arithmetic makes of it.
template <typename T>
T drawn(Arithmetic arithmetic, std::mt19937& random) {
  if constexpr (sizeof(T) == 1) return static_cast<T>(random());
  if (arithmetic == Arithmetic::Fma)
    return T(static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 997.f);
  const float whole = static_cast<float>(static_cast<int>(random() % 5) - 2);
  return T(arithmetic == Arithmetic::Tf32 ? whole * (1 - 1.f / 8192) : whole);
}
template <typename T>
Accumulator<T> as_multiplied(Arithmetic arithmetic, T value) {
  if constexpr (sizeof(T) == 4)
    if (arithmetic == Arithmetic::Tf32) return std::round(value);
  return static_cast<Accumulator<T>>(value);
}

// The chains of an element's sum, each with the additions behind it: segments, or a tree's leaves.
inline std::vector<TreePart> chains_of(const Problem& problem) {
  if (problem.leaf > 0) return leaves_of(problem);
  std::vector<TreePart> segments;
  for (int64_t s = 0; s < segment_count(problem.k); ++s)
    segments.push_back(
        {segment_begin(s), segment_end(s, problem.k) - segment_begin(s), static_cast<int>(s > 0)});
  return segments;
}
template <typename Sum>
void add_last_two(std::vector<Sum>& sums) {
  const Sum last = sums.back();
  sums.pop_back();
  sums.back() += last;
}

// A problem with its operands and a bias; C is still to come.
template <typename T>
struct Operands {
  using Sum = Accumulator<T>;

  Operands(const Product& p, Arithmetic arithmetic, std::mt19937& random)
      : a(p.batch, p.m, p.k, p.a, sizeof(T)),
        b(p.batch, p.k, p.n, p.b, sizeof(T)),
        bias(1, 1, std::max(p.m, p.n), {true}, sizeof(T)) {
    problem.batch = p.batch, problem.m = p.m, problem.n = p.n, problem.k = p.k;
    problem.dtype = dtype_of<T>(), problem.arithmetic = arithmetic;
    problem.leaf = p.leaf;
    problem.a = filled(a, random), problem.b = filled(b, random);
    for (int64_t i = 0; i < bias.columns; ++i) bias.at<T>(0, 0, i) = T(static_cast<Sum>(i % 7));
    Epilogue& e = problem.epilogue;
    e.out_dtype = p.unrounded ? accumulator_of(problem.dtype) : problem.dtype;
    e.activation = p.activation;
    if (p.bias_along != Along::Nothing)
      e.bias_along = p.bias_along, e.bias = bias.data(), e.bias_stride = 1,
      e.bias_dtype = problem.dtype;
  }

  // C's element before it is rounded to C's dtype.
  Sum expected(int64_t entry, int64_t i, int64_t j) const {
    std::vector<Sum> waiting;
    for (const TreePart& part : chains_of(problem)) {
      Sum chain = 0;
      for (int64_t k = part.begin; k < part.begin + part.size; ++k) {
        const Sum x = as_multiplied(problem.arithmetic, a.at<T>(entry, i, k));
        const Sum y = as_multiplied(problem.arithmetic, b.at<T>(entry, k, j));
        if constexpr (std::is_same_v<Sum, float>)
          chain = std::fma(x, y, chain);
        else
          chain += x * y;
      }
      waiting.push_back(0 + chain);
      for (int32_t i = 0; i < part.additions; ++i) add_last_two(waiting);
    }
    const Sum total = waiting.empty() ? 0 : waiting.back();
    const Epilogue& e = problem.epilogue;
    if (e.is_identity()) return total;
    const int64_t of_bias = e.bias_along == Along::M ? i : j;
    const Sum added =
        e.bias_along == Along::Nothing ? 0 : static_cast<Sum>(bias.at<T>(0, 0, of_bias));
    const Sum pre_activation = pre_activation_of(e, total, added, Sum{});
    if constexpr (std::is_same_v<Sum, float>)
      return activated(e, pre_activation);
    else
      return pre_activation;
  }

  Matrix a, b, bias;
  Problem problem{};

 private:
  Operand filled(const Matrix& x, std::mt19937& random) const {
    for (int64_t entry = 0; entry < problem.batch; ++entry)
      for (int64_t i = 0; i < x.rows; ++i)
        for (int64_t j = 0; j < x.columns; ++j)
          x.at<T>(entry, i, j) = drawn<T>(problem.arithmetic, random);
    const int64_t r = x.row_stride(), c = x.column_stride();
    return {x.data(), r, c, x.entry, alignment_of(x.data(), problem.dtype, r, c, x.entry)};
  }
};

// Says what is wrong with a way's C, if anything; `sums` in the order of its elements.
template <typename T>
std::string wrong_with(const Product& p, const Matrix& c, const std::vector<Accumulator<T>>& sums) {
  using Sum = Accumulator<T>;
  const Sum* sum = sums.data();
  for (int64_t entry = 0; entry < p.batch; ++entry)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j, ++sum) {
        const Sum found =
            p.unrounded ? c.at<Sum>(entry, i, j) : static_cast<Sum>(c.at<T>(entry, i, j));
        const Sum wants = p.unrounded ? *sum : static_cast<Sum>(T(*sum));
        if (found != wants)
          return "C[" + std::to_string(entry) + ", " + std::to_string(i) + ", " +
                 std::to_string(j) + "] is " + std::to_string(found) + ", not " +
                 std::to_string(wants);
      }
  return c.is_untouched_around(p.batch) ? "" : "something is written around C";
}

// Runs every way of the rung, of type RungWay, that the planner offers for the product on the
// device and `wanted` takes, which may change it: run(problem, way, product's step, workspace,
// random). Returns how many ran, or -1 at the first wrong one, which `wrong` describes.
template <typename T, typename RungWay, typename Wanted, typename Run>
int count_right_ways_of(Algo algo, Arithmetic arithmetic, const Product& p, uint32_t seed,
                        const DeviceInfo& device, Wanted wanted, Run run, std::string& wrong) {
  std::mt19937 random(seed);
  Operands<T> operands(p, arithmetic, random);
  std::vector<Accumulator<T>> sums;
  for (int64_t entry = 0; entry < p.batch; ++entry)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) sums.push_back(operands.expected(entry, i, j));

  const Rung& rung = *rung_of(algo);
  int right = 0;
  rung.ways(operands.problem, device, [&](const Way& offered) {
    RungWay way = offered.as<RungWay>();
    if (right < 0 || !wanted(way)) return;
    Problem problem = operands.problem;
    const DType out = problem.epilogue.out_dtype;
    const Matrix c(p.batch, p.m, p.n, p.c, static_cast<int>(size_of(out)));
    problem.c = {c.data(), c.row_stride(), c.column_stride(), c.entry,
                 alignment_of(c.data(), out, c.row_stride(), c.column_stride(), c.entry)};
    const Plan plan = rung.plan(problem, device, Way(way));
    const Step step = plan.main_step();
    if (step.work != Work::Product) return;
    std::vector<float> workspace(plan.workspace_bytes / 4 + 4);
    std::string found;
    try {
      run(problem, way, step, workspace.data(), random);
      found = wrong_with<T>(p, c, sums);
    } catch (const std::exception& error) {
      found = error.what();
    }
    ++right;
    if (found.empty()) return;
    const NamedWay name = rung.name(problem, Way(way));
    wrong = name.tile + (name.swap_ab ? ", swap_ab: " : ": ") + found;
    right = -1;
  });
  return right;
}

}  // namespace test
}  // namespace tiled
