// The instances of rung hopper, by tile. They are spread over several files, so that they compile
// side by side.
#pragma once

#include "cuda/rungs/7_hopper/hopper_kernel.cuh"
#include "cuda/rungs/7_hopper/kernels.h"

namespace tiled {

template <typename Tile, typename T, bool P_MN_MAJOR, bool Q_MN_MAJOR, bool FINISHES>
Kernel<HopperArguments> hopper_instance() {
  if constexpr (has_hopper_kernel<Tile, T, P_MN_MAJOR>())
    return &hopper<Tile, T, P_MN_MAJOR, Q_MN_MAJOR, FINISHES>;
  else
    return nullptr;  // not planned for
}

template <typename T, bool P_MN_MAJOR, bool Q_MN_MAJOR, bool FINISHES, typename... Tiles>
Kernel<HopperArguments> hopper_function_of(TileList<Tiles...>, int tile) {
  static const Kernel<HopperArguments> functions[] = {
      hopper_instance<Tiles, T, P_MN_MAJOR, Q_MN_MAJOR, FINISHES>()...};
  return functions[tile];
}

template <typename T, bool P_MN_MAJOR, bool Q_MN_MAJOR>
Kernel<HopperArguments> hopper_function(int tile, bool finishes) {
  return finishes ? hopper_function_of<T, P_MN_MAJOR, Q_MN_MAJOR, true>(HopperTiles(), tile)
                  : hopper_function_of<T, P_MN_MAJOR, Q_MN_MAJOR, false>(HopperTiles(), tile);
}

}  // namespace tiled
