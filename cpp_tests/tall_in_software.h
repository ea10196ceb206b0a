// Rung tall's kernels on the CPU (rung_in_software.h): of 16 bits beside exact sums of small
// integers, of fp32 beside chains of fused multiply-adds, bit for bit.
#pragma once

// clang-format off: before all else, what CUDA C++ has by itself
#include "rung_in_software.h"
// clang-format on

#include "cuda/engine/tall/plan.h"
#include "cuda/engine/tall/tall.cuh"

namespace tiled {
namespace test {

template <typename T>
Kernel<TallArguments> tall_of(const Problem& computed, const TallWay& way) {
  const bool along_m = is_mn_major(side_a(computed)), plain = is_plain(computed, way);
  if constexpr (sizeof(T) == 4)
    return tall_function<T>(ChainTallTiles(), {way.tile - FIRST_CHAIN_TILE, along_m, plain});
  else
    return tall_function<T>(TensorTallTiles(), {way.tile, along_m, plain});
}

// count_right_ways_of on an H200 of so many multiprocessors.
template <typename T, typename Wanted>
int count_right_ways(const Product& p, uint32_t seed, Wanted wanted, std::string& wrong,
                     int multiprocessors = 2) {
  DeviceInfo device = *named_device("h200");
  device.multiprocessors = multiprocessors;
  const auto run = [](const Problem& problem, const TallWay& way, const Step& step, void* totals,
                      std::mt19937& random) {
    const TallArguments arguments = tall_arguments(problem, way, totals);
    const auto kernel = tall_of<T>(arguments.problem, way);
    software_gpu::run_grid(step.grid_x, step.grid_y, step.threads_x, random,
                           [&] { kernel(arguments); });
  };
  return count_right_ways_of<T, TallWay>(Algo::Tall,
                                         sizeof(T) == 4 ? Arithmetic::Fma : Arithmetic::Tensor, p,
                                         seed, device, wanted, run, wrong);
}

}  // namespace test
}  // namespace tiled
