// The kernel of rung few_rows, and its instances by tile and layouts.
#pragma once

#include "cuda/engine/few_rows/kernels.h"
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/ptx/cluster.cuh"

namespace tiled {

// Tile::WARPS warps that multiply, and some that load.
template <typename Work>
__global__ void __launch_bounds__(Work::Tile::THREADS, 1)
    few_rows(const __grid_constant__ typename Work::Arguments args) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Work work(args, memory);
  work.initialise_barriers();
  let_the_next_start();
  // The same value in all lanes, known to the compiler as such.
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp < Work::Tile::WARPS) {
    wait_for_kernels_before();
    work.consume(warp);
  } else if (ptx::elect_sync()) {
    work.produce(warp - Work::Tile::WARPS);
  }
}

// The kernel of a tile, of the layouts of P and Q: Work::Of<Tile, TREES, P_MN_MAJOR, Q_MN_MAJOR>
// for the tiles that are multiplied by BY. The others are not planned for.
template <FewRowsBy BY, typename Work, bool TREES, bool P_MN_MAJOR, bool Q_MN_MAJOR>
struct FewRowsKernels {
  template <typename Tile>
  static FewRowsKernel<TREES> of() {
    if constexpr (Tile::BY == BY)
      return &few_rows<typename Work::template Of<Tile, TREES, P_MN_MAJOR, Q_MN_MAJOR>>;
    else
      return nullptr;
  }
  template <typename... Tiles>
  static FewRowsKernel<TREES> of(TileList<Tiles...>, int tile) {
    static const FewRowsKernel<TREES> kernels[] = {of<Tiles>()...};
    return kernels[tile];
  }
};
template <FewRowsBy BY, typename Work, bool TREES, bool P_MN_MAJOR, bool Q_MN_MAJOR = false>
FewRowsKernel<TREES> few_rows_kernel(int tile) {
  return FewRowsKernels<BY, Work, TREES, P_MN_MAJOR, Q_MN_MAJOR>::of(FewRowsTiles(), tile);
}

// For those that take a Q along k alone.
template <FewRowsBy BY, typename Work, bool TREES>
FewRowsKernel<TREES> few_rows_kernel(int tile, bool p_mn_major) {
  return p_mn_major ? few_rows_kernel<BY, Work, TREES, true>(tile)
                    : few_rows_kernel<BY, Work, TREES, false>(tile);
}
// For those that take one along m or n too.
template <FewRowsBy BY, typename Work, bool TREES>
FewRowsKernel<TREES> few_rows_kernel(int tile, bool p_mn_major, bool q_mn_major) {
  if (!q_mn_major) return few_rows_kernel<BY, Work, TREES>(tile, p_mn_major);
  return p_mn_major ? few_rows_kernel<BY, Work, TREES, true, true>(tile)
                    : few_rows_kernel<BY, Work, TREES, false, true>(tile);
}

}  // namespace tiled
