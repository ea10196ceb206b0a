// Rung tall. A very long operand and a short one: the short one is whole in shared memory for a
// block's whole life, and every warp streams strips of rows of the long one past it, through a ring
// of its own, so that no warp waits for another and memory never stands still.
//
//     long A    k ->              short B  +---------+     C
//     +------------+ warp 0       k        |         |     +---------+
//     | ---------> |              |        | panel   |     | warp 0  |
//     +------------+ warp 1       v        |         |     +---------+
//     | ---------> |                       +---------+     | warp 1  |
//     +------------+  ...                                  +---------+
//     cp.async, a ring of stages a warp    read by all     16 bytes a lane, or through shared
//     memory
//
// 16 bits: mma.sync in steps of 16 of k, as async_mma has them (fragments.cuh here). fp32: chains
// of multiply-adds, k ascending (chains.cuh). A K that does not fit the panel has it loaded again
// and again, and one of segments keeps its totals in the workspace: right, but not what it is for.
//
// Preconditions: fp16, bf16, fp32; compute capability 8.0; any strides and alignment (strips.cuh).
// Bound by memory, fp32 by multiply-adds from some 64 columns and 64 of K on. It is not meant for
// square products.
#pragma once

#include "core/segments.h"
#include "cuda/engine/tall/chains.cuh"
#include "cuda/engine/tall/fragments.cuh"
#include "cuda/engine/tall/kernels.h"
#include "cuda/engine/tall/panel.cuh"
#include "cuda/engine/tall/tiles.h"

namespace tiled {

// PLAIN: lines are aligned, K is in the panel, and the sums go to C as they are.
template <typename Tile, typename T, bool ALONG_M, bool PLAIN>
__global__ void __launch_bounds__(Tile::THREADS,
                                  PLAIN ? Tile::PLAIN_BLOCKS_PER_SM : Tile::BLOCKS_PER_SM)
    tall(const __grid_constant__ TallArguments args) {
  using Sums = std::conditional_t<Tile::CHAINS, TallChains<Tile, ALONG_M>,
                                  TallFragments<Tile, T, ALONG_M, Tile::swizzles(PLAIN)>>;
  const Problem& problem = args.problem;
  extern __shared__ __align__(1024) char shared[];
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int warp = threadIdx.x / 32;
  const uint32_t ring = base + warp * Tile::WARP_BYTES;
  const uint32_t room = ring + Tile::STAGES * Tile::STAGE_BYTES;  // of C on its way out

  // Strips go round the blocks, so that all have as many, or one more.
  const int column = static_cast<int>(blockIdx.x) % args.columns;
  const int sharer = static_cast<int>(blockIdx.x) / args.columns;
  const int first = warp * args.sharers + sharer, step = Tile::WARPS * args.sharers;
  const int64_t column0 = int64_t{column} * Tile::BLOCK_N;
  const Panel<Tile, T> panel(args, base + Tile::RINGS_BYTES, column0);
  const bool stays = PLAIN || problem.k <= args.panel_k;
  const int64_t segments = PLAIN ? 1 : segment_count(problem.k);

  for (int64_t entry = blockIdx.y; entry < problem.batch; entry += gridDim.y) {
    Strips<Tile, T, ALONG_M, PLAIN> strips(args, entry, ring, first, step);
    const auto load_panel = [&](int64_t k0) {
      __syncthreads();  // all are done with what is there
      panel.load(entry, k0);
      __syncthreads();
    };
    if (stays) load_panel(0);
    // Where the panel changes all warps come as often as any.
    const int last =
        stays ? strips.count()
              : warp * args.sharers + sharer + (strips.count() - sharer + step - 1) / step * step;
    for (int strip = first; strip < last; strip += step) {
      const bool is_there = PLAIN || strip < strips.count();
      const int64_t row0 = int64_t{strip} * Tile::ROWS;
      Sums sums;
#pragma unroll 1
      for (int64_t segment = 0; segment < segments; ++segment) {
        sums.clear();
        const int64_t end = PLAIN ? problem.k : segment_end(segment, problem.k);
#pragma unroll 1
        for (int64_t k0 = segment_begin(segment); k0 < end; k0 += Tile::STEP_K) {
          const int in_panel = stays ? static_cast<int>(k0) : static_cast<int>(k0 % args.panel_k);
          if (!stays && in_panel == 0) load_panel(k0);
          if (!is_there) continue;
          const uint32_t stage = strips.next();
          const int ks = static_cast<int>(min(end - k0, int64_t{Tile::STEP_K}));
          const auto shift = [&](int line) { return strips.shift(row0, k0, line); };
          if (!PLAIN && args.read == TallRead::Shifted)
            sums.multiply_shifted(stage, panel.at(in_panel), panel.pitch(), ks, shift);
          else
            sums.multiply(stage, panel.at(in_panel), panel.pitch(), ks);
        }
        if (!PLAIN && is_there)
          sums.template add_segment_to<Tile::THREADS>(args.totals, segment, segments);
      }
      if (is_there) sums.template store<PLAIN>(problem, {entry, row0, column0, room});
    }
    __syncwarp();  // before the next entry's strips come to the same place
  }
}

template <typename T, typename... Tiles>
Kernel<TallArguments> tall_function(TileList<Tiles...>, const TallKernel& kernel) {
  static constexpr Kernel<TallArguments> FUNCTIONS[][2][2] = {
      {{&tall<Tiles, T, false, false>, &tall<Tiles, T, false, true>},
       {&tall<Tiles, T, true, false>, &tall<Tiles, T, true, true>}}...};
  return FUNCTIONS[kernel.tile][kernel.along_m][kernel.plain];
}

}  // namespace tiled
