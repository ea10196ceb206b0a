// Rung async_mma's kernels on the CPU (software_gpu/block.h), beside sums in fp64: small integers,
// whose sums are exact in any order. Operands end where no memory follows, so that what is read
// past them is noticed.
#pragma once

// clang-format off: before all else, what CUDA C++ has by itself
#include "software_gpu/block.h"
// clang-format on

#include <algorithm>
#include <string>

#include "core/finish.h"
#include "cuda/plan/rung.h"
#include "cuda/plan/sums.h"
#include "cuda/rungs/10_async_mma/held_fp16.cu"
#include "cuda/rungs/10_async_mma/plan.h"
#include "product_in_software.h"

namespace tiled {

namespace test {

// A number, of floats one that is small and whole when it has been rounded to tf32, but not when it
// is cut off; and what tensor cores make of it.
template <typename T>
T drawn(std::mt19937& random) {
  if constexpr (sizeof(T) == 1) return static_cast<T>(random());
  const float whole = static_cast<float>(static_cast<int>(random() % 5) - 2);
  return T(sizeof(T) == 4 ? whole * (1 - 1.f / 8192) : whole);
}
template <typename T>
Accumulator<T> as_multiplied(T value) {
  if constexpr (sizeof(T) == 4) return std::round(value);
  return static_cast<Accumulator<T>>(value);
}

template <typename T>
Kernel<AsyncMmaArguments> kernel_of(const Problem& computed, int tile) {
  if constexpr (std::is_same_v<T, __half>)
    if (async_mma_tile(tile).of_7_5)
      return async_mma_held_fp16(is_mn_major(side_a(computed)), is_mn_major(side_b(computed)),
                                 tile - FIRST_HELD_TILE);
  if constexpr (sizeof(T) == 2) {
    if (is_mn_major(side_a(computed)))
      return async_mma_function<T, true, true>(AsyncMmaTiles(), tile);
    if (is_mn_major(side_b(computed)))
      return async_mma_function<T, false, true>(AsyncMmaTiles(), tile);
  }
  return async_mma_function<T, false, false>(AsyncMmaTiles(), tile);
}

// What the kernel after a product does whose segments were shared out, without an epilogue.
template <typename T>
void add_sums_of(const Matrix& c, const SumsLayout& layout, const void* sums, const Product& p) {
  using Sum = Accumulator<T>;
  for (int64_t entry = 0; entry < p.batch; ++entry)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        const int64_t at = layout.along_m ? j * layout.pitch + i : i * layout.pitch + j;
        Sum total = 0;
        for (int64_t s = 0; s < layout.segments; ++s)
          total += static_cast<const Sum*>(sums)[(s * p.batch + entry) * layout.entry + at];
        if (p.unrounded)
          c.at<Sum>(entry, i, j) = total;
        else
          c.at<T>(entry, i, j) = T(total);
      }
}

// Runs every way that the planner offers for it on the device and `wanted` takes, each with another
// seed; returns how many ran, or -1 at the first wrong element, which `wrong` describes.
template <typename T, typename Wanted>
int count_right_ways(const Product& p, uint32_t seed, Wanted wanted, std::string& wrong,
                     const char* device_name = "h200") {
  constexpr DType DTYPE = dtype_of<T>();
  constexpr int BYTES = sizeof(T);
  using Sum = Accumulator<T>;
  std::mt19937 random(seed);
  const auto fill = [&](const Matrix& x) {
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t i = 0; i < x.rows; ++i)
        for (int64_t j = 0; j < x.columns; ++j) x.at<T>(b, i, j) = drawn<T>(random);
  };
  const Matrix a(p.batch, p.m, p.k, p.a, BYTES), b(p.batch, p.k, p.n, p.b, BYTES);
  const int64_t longest = std::max(p.m, p.n);
  const Matrix bias(1, 1, longest, {true}, BYTES);
  fill(a), fill(b);
  for (int64_t i = 0; i < longest; ++i) bias.at<T>(0, 0, i) = T(static_cast<Sum>(i % 7));

  Problem problem{};
  problem.batch = p.batch, problem.m = p.m, problem.n = p.n, problem.k = p.k;
  problem.dtype = DTYPE;
  problem.arithmetic = BYTES == 4   ? Arithmetic::Tf32
                       : BYTES == 2 ? Arithmetic::Tensor
                                    : Arithmetic::Fma;
  const auto operand = [&](const Matrix& x) -> Operand {
    const int64_t r = x.row_stride(), c = x.column_stride();
    return {x.data(), r, c, x.entry, alignment_of(x.data(), DTYPE, r, c, x.entry)};
  };
  problem.a = operand(a), problem.b = operand(b);
  Epilogue& e = problem.epilogue;
  e.out_dtype = p.unrounded ? accumulator_of(DTYPE) : DTYPE;
  e.activation = p.activation;
  if (p.bias_along != Along::Nothing)
    e.bias_along = p.bias_along, e.bias = bias.data(), e.bias_stride = 1, e.bias_dtype = DTYPE;

  const auto expected = [&](int64_t entry, int64_t i, int64_t j) {
    Sum sum = 0;  // exact
    for (int64_t k = 0; k < p.k; ++k)
      sum += as_multiplied(a.at<T>(entry, i, k)) * as_multiplied(b.at<T>(entry, k, j));
    const int64_t of_bias = p.bias_along == Along::M ? i : j;
    const Sum added =
        p.bias_along == Along::Nothing ? 0 : static_cast<Sum>(bias.at<T>(0, 0, of_bias));
    if (e.is_identity()) return sum;
    const Sum before = before_activation(e, sum, added, Sum{});
    if constexpr (BYTES > 1)
      return activated(e, before);
    else
      return before;
  };
  std::vector<Sum> sums;
  for (int64_t entry = 0; entry < p.batch; ++entry)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) sums.push_back(expected(entry, i, j));

  const DeviceInfo device = *named_device(device_name);
  const Rung& rung = *rung_of(Algo::AsyncMma);
  int right = 0;
  rung.ways(problem, device, [&](const Way& way, double) {
    const AsyncMmaWay chosen = way.as<AsyncMmaWay>();
    // The copies before a product are other kernels.
    if (right < 0 || !wanted(chosen) || chosen.copy_a || chosen.copy_b) return;
    const Matrix c(p.batch, p.m, p.n, p.c, p.unrounded ? 4 : BYTES);
    const DType out = e.out_dtype;
    problem.c = {c.data(), c.row_stride(), c.column_stride(), c.entry,
                 alignment_of(c.data(), out, c.row_stride(), c.column_stride(), c.entry)};
    const Plan plan = rung.plan(problem, device, way);
    const Step step = plan.main_step();
    std::vector<float> totals(plan.workspace_bytes / 4 + 4);
    const SumsLayout layout = sums_layout(problem, segment_count(problem.k));
    const Problem read =
        chosen.shares_segments ? problem_of_sums(problem, layout, totals.data()) : problem;
    const AsyncMmaArguments arguments = {as_turned(read, chosen), totals.data(), chosen.a, chosen.b,
                                         chosen.shares_segments};
    const auto kernel = kernel_of<T>(arguments.problem, chosen.tile);
    gridDim = {static_cast<unsigned>(step.grid_x), static_cast<unsigned>(step.grid_y), 1};
    for (unsigned y = 0; y < gridDim.y; ++y)
      for (unsigned x = 0; x < gridDim.x; ++x) {
        blockIdx = {x, y, 0};
        software_gpu::block.run(step.threads_x, static_cast<uint32_t>(random()),
                                [&] { kernel(arguments); });
      }
    if (chosen.shares_segments) add_sums_of<T>(c, layout, totals.data(), p);
    ++right;
    const Sum* sum = sums.data();
    for (int64_t entry = 0; entry < p.batch; ++entry)
      for (int64_t i = 0; i < p.m; ++i)
        for (int64_t j = 0; j < p.n; ++j, ++sum) {
          const Sum found =
              p.unrounded ? c.at<Sum>(entry, i, j) : static_cast<Sum>(c.at<T>(entry, i, j));
          const Sum wants = p.unrounded ? *sum : static_cast<Sum>(T(*sum));
          if (found == wants || right < 0) continue;
          wrong = std::string(async_mma_tile_name(chosen.tile)) +
                  (chosen.exchanged ? ", exchanged" : "") + ": C[" + std::to_string(entry) + ", " +
                  std::to_string(i) + ", " + std::to_string(j) + "] is " + std::to_string(found) +
                  ", not " + std::to_string(wants);
          right = -1;
        }
    if (right > 0 && !c.is_untouched_around(p.batch)) {
      wrong = std::string(async_mma_tile_name(chosen.tile)) + " writes around C";
      right = -1;
    }
  });
  return right;
}

}  // namespace test
}  // namespace tiled
