// Rung tall's kernels on the CPU (software_gpu/block.h): of 16 bits beside exact sums of small
// integers, of fp32 beside chains of fused multiply-adds, bit for bit. Operands end where no memory
// follows, so that what is read past them is noticed.
#pragma once

// clang-format off: before all else, what CUDA C++ has by itself
#include "software_gpu/block.h"
// clang-format on

#include <string>

#include "core/finish.h"
#include "cuda/plan/rung.h"
#include "cuda/rungs/11_tall/plan.h"
#include "cuda/rungs/11_tall/tall.cuh"
#include "product_in_software.h"

namespace tiled {
namespace test {

template <typename T>
float drawn_number(std::mt19937& random) {
  if (sizeof(T) == 4) return static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 997.f;
  return static_cast<float>(static_cast<int>(random() % 5) - 2);
}

template <typename T>
Kernel<TallArguments> tall_of(const Problem& computed, const TallWay& way) {
  const bool along_m = is_mn_major(side_a(computed)), plain = is_plain(computed, way);
  if constexpr (sizeof(T) == 4)
    return tall_function<T>(ChainTallTiles(), {way.tile - FIRST_CHAIN_TILE, along_m, plain});
  else
    return tall_function<T>(TensorTallTiles(), {way.tile, along_m, plain});
}

// Runs every way that the planner offers for it on an H200 of so many multiprocessors and `wanted`
// takes, each with another seed; returns how many ran, or -1 at the first wrong element, which
// `wrong` describes. `panel_k`, if it is not 0, is the most of K that the panel gets.
template <typename T, typename Wanted>
int count_right_ways(const Product& p, uint32_t seed, Wanted wanted, std::string& wrong,
                     int multiprocessors = 2, int panel_k = 0) {
  constexpr DType DTYPE = dtype_of<T>();
  constexpr int BYTES = sizeof(T);
  std::mt19937 random(seed);
  const auto fill = [&](const Matrix& x) {
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t i = 0; i < x.rows; ++i)
        for (int64_t j = 0; j < x.columns; ++j) x.at<T>(b, i, j) = T(drawn_number<T>(random));
  };
  const Matrix a(p.batch, p.m, p.k, p.a, BYTES), b(p.batch, p.k, p.n, p.b, BYTES);
  const int64_t longest = std::max(p.m, p.n);
  const Matrix bias(1, 1, longest, {true}, BYTES);
  fill(a), fill(b);
  for (int64_t i = 0; i < longest; ++i) bias.at<T>(0, 0, i) = T(static_cast<float>(i % 7));

  Problem problem{};
  problem.batch = p.batch, problem.m = p.m, problem.n = p.n, problem.k = p.k;
  problem.dtype = DTYPE;
  problem.arithmetic = BYTES == 4 ? Arithmetic::Fma : Arithmetic::Tensor;
  const auto operand = [&](const Matrix& x) -> Operand {
    const int64_t r = x.row_stride(), c = x.column_stride();
    return {x.data(), r, c, x.entry, alignment_of(x.data(), DTYPE, r, c, x.entry)};
  };
  problem.a = operand(a), problem.b = operand(b);
  Epilogue& e = problem.epilogue;
  e.out_dtype = p.unrounded ? DType::Float32 : DTYPE;
  e.activation = p.activation;
  if (p.bias_along != Along::Nothing)
    e.bias_along = p.bias_along, e.bias = bias.data(), e.bias_stride = 1, e.bias_dtype = DTYPE;

  std::vector<float> sums;
  for (int64_t entry = 0; entry < p.batch; ++entry)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        float total = 0;
        for (int64_t s = 0; s < segment_count(p.k); ++s) {
          float chain = 0;
          for (int64_t k = segment_begin(s); k < segment_end(s, p.k); ++k)
            chain = std::fma(static_cast<float>(a.at<T>(entry, i, k)),
                             static_cast<float>(b.at<T>(entry, k, j)), chain);
          total += chain;
        }
        const int64_t of_bias = p.bias_along == Along::M ? i : j;
        const float added =
            p.bias_along == Along::Nothing ? 0 : static_cast<float>(bias.at<T>(0, 0, of_bias));
        sums.push_back(e.is_identity() ? total
                                       : activated(e, before_activation(e, total, added, 0.f)));
      }

  DeviceInfo device = *named_device("h200");
  device.multiprocessors = multiprocessors;
  const Rung& rung = *rung_of(Algo::Tall);
  int right = 0;
  rung.ways(problem, device, [&](const Way& offered, double) {
    TallWay chosen = offered.as<TallWay>();
    if (right < 0 || !wanted(chosen)) return;
    if (panel_k > 0) chosen.panel_k = std::min(chosen.panel_k, panel_k);
    const Matrix c(p.batch, p.m, p.n, p.c, p.unrounded ? 4 : BYTES);
    const DType out = e.out_dtype;
    problem.c = {c.data(), c.row_stride(), c.column_stride(), c.entry,
                 alignment_of(c.data(), out, c.row_stride(), c.column_stride(), c.entry)};
    const Plan plan = rung.plan(problem, device, Way(chosen));
    const Step step = plan.main_step();
    if (step.work != Work::Product) return;
    std::vector<float> totals(plan.workspace_bytes / 4 + 4);
    const TallArguments arguments = tall_arguments(problem, chosen, totals.data());
    const auto kernel = tall_of<T>(arguments.problem, chosen);
    gridDim = {static_cast<unsigned>(step.grid_x), static_cast<unsigned>(step.grid_y), 1};
    const std::string name =
        std::string(tall_tile_name(chosen.tile)) + (chosen.exchanged ? ", exchanged" : "");
    try {
      for (unsigned y = 0; y < gridDim.y; ++y)
        for (unsigned x = 0; x < gridDim.x; ++x) {
          blockIdx = {x, y, 0};
          software_gpu::block.run(step.threads_x, static_cast<uint32_t>(random()),
                                  [&] { kernel(arguments); });
        }
    } catch (const std::exception& error) {
      wrong = name + ": " + error.what();
      right = -1;
      return;
    }
    ++right;
    const float* sum = sums.data();
    for (int64_t entry = 0; entry < p.batch; ++entry)
      for (int64_t i = 0; i < p.m; ++i)
        for (int64_t j = 0; j < p.n; ++j, ++sum) {
          const float found =
              p.unrounded ? c.at<float>(entry, i, j) : static_cast<float>(c.at<T>(entry, i, j));
          const float wants = p.unrounded ? *sum : static_cast<float>(T(*sum));
          if (found == wants || right < 0) continue;
          wrong = name + ": C[" + std::to_string(entry) + ", " + std::to_string(i) + ", " +
                  std::to_string(j) + "] is " + std::to_string(found) + ", not " +
                  std::to_string(wants);
          right = -1;
        }
    if (right > 0 && !c.is_untouched_around(p.batch)) {
      wrong = name + " writes around C";
      right = -1;
    }
  });
  return right;
}

}  // namespace test
}  // namespace tiled
