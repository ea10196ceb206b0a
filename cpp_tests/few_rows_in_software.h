// Rung few_rows' kernels by mma.sync and by chains on the CPU (software_gpu/block.h): of 16 bits
// beside exact sums of small integers, of fp32 beside chains of fused multiply-adds, bit for bit.
#pragma once

// clang-format off: before all else, what CUDA C++ has by itself
#include "software_gpu/block.h"
// clang-format on

#include <string>

#include "core/finish.h"
#include "cuda/parts/mapped_matrix.h"
#include "cuda/plan/rung.h"
#include "cuda/rungs/8_few_rows/arguments.h"
#include "cuda/rungs/8_few_rows/chains.cuh"
#include "cuda/rungs/8_few_rows/few_rows_warps.cuh"
#include "product_in_software.h"

namespace tiled {
namespace test {

template <typename T>
float drawn_number(std::mt19937& random) {
  if (sizeof(T) == 4) return static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 997.f;
  return static_cast<float>(static_cast<int>(random() % 5) - 2);
}

// A block of few_rows.
template <typename Work>
void run(const FewRowsArguments& args) {
  Work work(args, reinterpret_cast<uint8_t*>(shared));
  work.initialise_barriers();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp < Work::Tile::WARPS)
    work.consume(warp);
  else if (ptx::elect_sync())
    work.produce(warp - Work::Tile::WARPS);
}

template <typename T, typename Tile, bool P_MN_MAJOR>
void run_tile(const FewRowsArguments& args) {
  if constexpr (Tile::BY == FewRowsBy::Warps && sizeof(T) == 2)
    run<FewRowsByWarps<Tile, T, P_MN_MAJOR>>(args);
  else if constexpr (Tile::BY == FewRowsBy::Lanes && sizeof(T) == 4)
    run<FewRowsChains<Tile, P_MN_MAJOR, false>>(args);
}
template <typename T, typename... Tiles>
void run_tile(TileList<Tiles...>, int tile, bool p_mn_major, const FewRowsArguments& args) {
  using Run = void (*)(const FewRowsArguments&);
  constexpr Run RUNS[][2] = {{run_tile<T, Tiles, false>, run_tile<T, Tiles, true>}...};
  RUNS[tile][p_mn_major](args);
}

// Runs every way of these multipliers that the planner offers for it on an H200 of so many
// multiprocessors; returns how many ran, or -1 at the first wrong element, which `wrong` describes.
template <typename T>
int count_right_ways(const Product& p, uint32_t seed, std::string& wrong, int multiprocessors) {
  constexpr DType DTYPE = dtype_of<T>();
  constexpr int BYTES = sizeof(T);
  std::mt19937 random(seed);
  const auto fill = [&](const Matrix& x) {
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t i = 0; i < x.rows; ++i)
        for (int64_t j = 0; j < x.columns; ++j) x.at<T>(b, i, j) = T(drawn_number<T>(random));
  };
  const Matrix a(p.batch, p.m, p.k, p.a, BYTES), b(p.batch, p.k, p.n, p.b, BYTES);
  fill(a), fill(b);

  Problem problem{};
  problem.batch = p.batch, problem.m = p.m, problem.n = p.n, problem.k = p.k;
  problem.dtype = DTYPE;
  problem.arithmetic = BYTES == 4 ? Arithmetic::Fma : Arithmetic::Tensor;
  const auto operand = [&](const Matrix& x) -> Operand {
    const int64_t r = x.row_stride(), c = x.column_stride();
    return {x.data(), r, c, x.entry, alignment_of(x.data(), DTYPE, r, c, x.entry)};
  };
  problem.a = operand(a), problem.b = operand(b);
  problem.epilogue.out_dtype = DTYPE;

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
        sums.push_back(total);
      }

  DeviceInfo device = *named_device("h200");
  device.multiprocessors = multiprocessors;
  const Rung& rung = *rung_of(Algo::FewRows);
  int right = 0;
  rung.ways(problem, device, [&](const Way& offered) {
    const FewRowsPlan way = offered.as<FewRowsPlan>();
    const FewRowsTileInfo& tile = few_rows_tile(way.tile);
    // The copies before a product and the sums of segments after it are other kernels.
    if (right < 0 || (tile.by != FewRowsBy::Warps && tile.by != FewRowsBy::Lanes) || way.repack_p ||
        way.repack_q || way.share_segments)
      return;
    const Matrix c(p.batch, p.m, p.n, p.c, BYTES);
    problem.c = {c.data(), c.row_stride(), c.column_stride(), c.entry,
                 alignment_of(c.data(), DTYPE, c.row_stride(), c.column_stride(), c.entry)};
    const Plan plan = rung.plan(problem, device, offered);
    const Sides sides = sides_of(problem, way.exchanged);
    FewRowsArguments args = few_rows_arguments(problem, way, plan.block_k, nullptr);
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
    const Step step = plan.main_step();
    gridDim = {static_cast<unsigned>(step.grid_x), 1, 1};
    const std::string name = std::string(few_rows_tile_name(way.tile)) + " of " +
                             std::to_string(way.strip) + (way.exchanged ? ", exchanged" : "");
    try {
      for (unsigned x = 0; x < gridDim.x; ++x) {
        blockIdx = {x, 0, 0};
        software_gpu::block.run(step.threads_x, static_cast<uint32_t>(random()), [&] {
          run_tile<T>(FewRowsTiles(), way.tile, is_mn_major(sides.p), args);
        });
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
          const float found = static_cast<float>(c.at<T>(entry, i, j));
          const float wants = static_cast<float>(T(*sum));
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
