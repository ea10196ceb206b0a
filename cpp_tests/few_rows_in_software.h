// Rung few_rows' kernels by mma.sync and by chains on the CPU (rung_in_software.h): of 16 bits
// beside exact sums of small integers, of fp32 beside chains of fused multiply-adds, bit for bit.
#pragma once

// clang-format off: before all else, what CUDA C++ has by itself
#include "rung_in_software.h"
// clang-format on

#include "cuda/engine/few_rows/arguments.h"
#include "cuda/engine/few_rows/chains.cuh"
#include "cuda/engine/few_rows/few_rows_warps.cuh"
#include "cuda/parts/launch/mapped_matrix.h"

namespace tiled {
namespace test {

// A block of few_rows.
template <typename Work>
void run(const typename Work::Arguments& args) {
  Work work(args, reinterpret_cast<uint8_t*>(shared));
  work.initialise_barriers();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp < Work::Tile::WARPS)
    work.consume(warp);
  else if (ptx::elect_sync())
    work.produce(warp - Work::Tile::WARPS);
}

template <typename T, typename Tile, bool TREES, bool P_MN_MAJOR>
void run_tile(const FewRowsArgumentsOf<TREES>& args) {
  if constexpr (Tile::BY == FewRowsBy::Warps && sizeof(T) == 2)
    run<FewRowsByWarps<Tile, T, TREES, P_MN_MAJOR>>(args);
  else if constexpr (Tile::BY == FewRowsBy::Lanes && sizeof(T) == 4)
    run<FewRowsChains<Tile, TREES, P_MN_MAJOR, false>>(args);
}
template <typename T, bool TREES, typename... Tiles>
void run_tile(TileList<Tiles...>, int tile, bool p_mn_major,
              const FewRowsArgumentsOf<TREES>& args) {
  using Run = void (*)(const FewRowsArgumentsOf<TREES>&);
  constexpr Run RUNS[][2] = {
      {run_tile<T, Tiles, TREES, false>, run_tile<T, Tiles, TREES, true>}...};
  RUNS[tile][p_mn_major](args);
}

// The kernel does this behind a product that leaves the sums of its segments, or leaves.
template <typename T>
void add_shared_sums(const Problem& problem, const float* sums) {
  const SumsLayout layout = sums_layout(problem);
  for (int64_t entry = 0; entry < problem.batch; ++entry)
    for (int64_t i = 0; i < problem.m; ++i)
      for (int64_t j = 0; j < problem.n; ++j) {
        const int64_t row = layout.along_m ? j : i, column = layout.along_m ? i : j;
        const float* sum = sums + entry * layout.entry + row * layout.pitch + column;
        std::vector<float> waiting;
        for (const TreePart& part : chains_of(problem)) {
          waiting.push_back(*sum);
          for (int32_t k = 0; k < part.additions; ++k) add_last_two(waiting);
          sum += problem.batch * layout.entry;
        }
        const Result& c = problem.c;
        static_cast<T*>(c.data)[entry * c.batch_stride + i * c.row_stride + j * c.col_stride] =
            T(waiting.back());
      }
}

// count_right_ways_of, by these multipliers, on an H200 of so many multiprocessors.
template <typename T>
int count_right_ways(const Product& p, uint32_t seed, std::string& wrong, int multiprocessors) {
  constexpr int BYTES = sizeof(T);
  DeviceInfo device = *named_device("h200");
  device.multiprocessors = multiprocessors;
  // The copies before a product are another kernel.
  const auto wanted = [](const FewRowsPlan& way) {
    const FewRowsBy by = few_rows_tile(way.tile).by;
    return (by == FewRowsBy::Warps || by == FewRowsBy::Lanes) && way.copy_p == CopyTo::Nothing &&
           way.copy_q == CopyTo::Nothing;
  };
  const auto run = [&](const Problem& problem, const FewRowsPlan& way, const Step& step,
                       void* workspace, std::mt19937& random) {
    const Plan plan = rung_of(Algo::FewRows)->plan(problem, device, Way(way));
    const Sides sides = sides_of(problem, way.swap_ab);
    FewRowsArguments args = few_rows_arguments(problem, way, plan.block_k, workspace);
    map_operands(args, way, sides, BYTES,
                 [&](CUtensorMap* to, const Side& side, int strip, int rows) {
                   const MappedMatrix m = mapped(side, entries_of(side, problem.batch));
                   const int box_k = 128 / BYTES;
                   const bool mn_major = is_mn_major(side);
                   const ptx::SoftwareMap map = {static_cast<const char*>(m.data),
                                                 {m.columns, m.rows, m.batch},
                                                 {m.row_stride * BYTES, m.batch_stride * BYTES},
                                                 BYTES,
                                                 mn_major ? strip : box_k,
                                                 mn_major ? box_k : rows};
                   std::memcpy(to, &map, sizeof map);
                   return cudaSuccess;
                 });
    software_gpu::run_grid(step.grid_x, step.grid_y, step.threads_x, random, [&] {
      if (problem.leaf > 0)
        run_tile<T, true>(FewRowsTiles(), way.tile, is_mn_major(sides.p),
                          with_leaves(args, problem, way));
      else
        run_tile<T, false>(FewRowsTiles(), way.tile, is_mn_major(sides.p), args);
    });
    if (way.split_k) add_shared_sums<T>(problem, static_cast<const float*>(workspace));
  };
  return count_right_ways_of<T, FewRowsPlan>(Algo::FewRows,
                                             BYTES == 4 ? Arithmetic::Fma : Arithmetic::Tensor, p,
                                             seed, device, wanted, run, wrong);
}

}  // namespace test
}  // namespace tiled
