// Rung async_mma's kernels on the CPU (rung_in_software.h), beside exact sums of small integers.
#pragma once

// clang-format off: before all else, what CUDA C++ has by itself
#include "rung_in_software.h"
// clang-format on

#include "cuda/engine/async_mma/instances.cuh"
#include "cuda/engine/async_mma/plan.h"
#include "cuda/plan/sums.h"

namespace tiled {
namespace test {

// Kernels of one type are asked for, so that no others are compiled.
template <typename T>
Kernel<AsyncMmaArguments> async_mma_of(const Problem& computed, int tile) {
  const AsyncMmaKernel wanted = {computed.dtype, std::is_same_v<T, signed char>,
                                 is_mn_major(side_a(computed)), is_mn_major(side_b(computed)),
                                 is_grouped(computed)};
  return with_tile(AllAsyncMmaTiles(), tile, [&](auto of_tile) -> Kernel<AsyncMmaArguments> {
    using Tile = decltype(of_tile);
    if constexpr (Tile::SM75 && !std::is_same_v<T, __half>)
      return nullptr;
    else if constexpr (sizeof(T) == 2)
      return async_mma_by_layout<Tile, T>(wanted);
    else
      return async_mma_kernel_of<Tile, T, false, false>(wanted);
  });
}

// The last kernel of split-K does this, without an epilogue.
template <typename T>
void add_sums_of(const Problem& problem, const SumsLayout& layout, const void* sums) {
  using Sum = Accumulator<T>;
  const Result& c = problem.c;
  for (int64_t entry = 0; entry < problem.batch; ++entry)
    for (int64_t i = 0; i < problem.m; ++i)
      for (int64_t j = 0; j < problem.n; ++j) {
        const int64_t at = layout.along_m ? j * layout.pitch + i : i * layout.pitch + j;
        Sum total = 0;
        for (int64_t s = 0; s < layout.segments; ++s)
          total += static_cast<const Sum*>(sums)[(s * problem.batch + entry) * layout.entry + at];
        const int64_t of_c = entry * c.batch_stride + i * c.row_stride + j * c.col_stride;
        if (problem.epilogue.out_dtype != problem.dtype)
          static_cast<Sum*>(c.data)[of_c] = total;
        else
          static_cast<T*>(c.data)[of_c] = T(total);
      }
}

// count_right_ways_of, of ways without copies: these are other kernels.
template <typename T, typename Wanted>
int count_right_ways(const Product& p, uint32_t seed, Wanted wanted, std::string& wrong,
                     const char* device_name = "h200") {
  const auto run = [](const Problem& problem, const AsyncMmaWay& way, const Step& step,
                      void* workspace, std::mt19937& random) {
    const SumsLayout layout = sums_layout(problem);
    const Problem read = way.split_k ? problem_of_sums(problem, layout, workspace) : problem;
    const AsyncMmaArguments arguments = {
        {async_mma_problem(read, way), workspace, way.split_k}, way.a, way.b};
    const auto kernel = async_mma_of<T>(arguments.problem, way.tile);
    software_gpu::run_grid(step.grid_x, step.grid_y, step.threads_x, random,
                           [&] { kernel(arguments); });
    if (way.split_k) add_sums_of<T>(problem, layout, workspace);
  };
  const Arithmetic arithmetic = sizeof(T) == 4   ? Arithmetic::Tf32
                                : sizeof(T) == 2 ? Arithmetic::Tensor
                                                 : Arithmetic::Fma;
  return count_right_ways_of<T, AsyncMmaWay>(
      Algo::AsyncMma, arithmetic, p, seed, *named_device(device_name),
      [&](const AsyncMmaWay& way) { return !way.copy_a && !way.copy_b && wanted(way); }, run,
      wrong);
}

}  // namespace test
}  // namespace tiled
