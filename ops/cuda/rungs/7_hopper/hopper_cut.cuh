// Rung hopper where tiles do not divide among the clusters that run at once: some are cut in time
// (parts/wrap_around.h), so that all have as much to do. Where consumers take tiles in turn, one
// hands accumulators over, or takes them, while the other multiplies.
#pragma once

#include "cuda/parts/cut_turns.cuh"
#include "cuda/rungs/7_hopper/hopper_kernel.cuh"
#include "cuda/rungs/7_hopper/kernels.h"

namespace tiled {

template <typename Tile, typename T, bool P_MN_MAJOR, bool Q_MN_MAJOR>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    hopper_cut(const __grid_constant__ HopperCutArguments args) {
  extern __shared__ __align__(1024) uint8_t memory[];
  using Kernel = Hopper<Tile, T, P_MN_MAJOR, Q_MN_MAJOR, /*FINISHES=*/false>;
  using Turns = CutTurns<decltype(Kernel::schedule), Tile::PING_PONG ? 1 : Tile::CONSUMERS>;
  run_hopper<Kernel, Tile>(args.grid, memory, [&](const Kernel& kernel) {
    kernel.wait_for_kernel_before();
    return Turns::of(kernel.schedule, args.cuts, kernel.blocks, kernel.base + Kernel::CUT_AT);
  });
}

// The instances, by tile; null where none is planned for.
template <typename Tile, typename T, bool P_MN_MAJOR, bool Q_MN_MAJOR>
Kernel<HopperCutArguments> hopper_cut_instance() {
  if constexpr (Tile::CUTS && has_hopper_kernel<Tile, T, P_MN_MAJOR>())
    return &hopper_cut<Tile, T, P_MN_MAJOR, Q_MN_MAJOR>;
  else
    return nullptr;
}

template <typename T, bool P_MN_MAJOR, bool Q_MN_MAJOR, typename... Tiles>
Kernel<HopperCutArguments> hopper_cut_function_of(TileList<Tiles...>, int tile) {
  static const Kernel<HopperCutArguments> functions[] = {
      hopper_cut_instance<Tiles, T, P_MN_MAJOR, Q_MN_MAJOR>()...};
  return functions[tile];
}

template <typename T>
Kernel<HopperCutArguments> hopper_cut_function(int tile, bool p_mn_major, bool q_mn_major) {
  const HopperTiles tiles;
  if (p_mn_major)
    return q_mn_major ? hopper_cut_function_of<T, true, true>(tiles, tile)
                      : hopper_cut_function_of<T, true, false>(tiles, tile);
  return q_mn_major ? hopper_cut_function_of<T, false, true>(tiles, tile)
                    : hopper_cut_function_of<T, false, false>(tiles, tile);
}

}  // namespace tiled
