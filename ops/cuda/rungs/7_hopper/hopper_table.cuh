// The instances of rung hopper, by tile. They are spread over several files, so that they compile
// side by side.
#pragma once

#include "cuda/rungs/7_hopper/hopper_kernel.cuh"
#include "cuda/rungs/7_hopper/kernels.h"

namespace tiled {

// Null where none is planned for.
template <typename Tile, typename T, bool P_MN_MAJOR, bool Q_MN_MAJOR, bool FINISHES, bool GROUPED>
Kernel<HopperArguments> hopper_instance() {
  if constexpr (GROUPED && OF_GROUPS<Tile>)
    return &hopper_of_groups<Tile, T, P_MN_MAJOR, Q_MN_MAJOR, FINISHES>;
  else if constexpr (!GROUPED && (!ONLY_BYTES<Tile> || sizeof(T) == 1) &&
                     has_hopper_kernel<Tile, T, P_MN_MAJOR>())
    return &hopper<Tile, T, P_MN_MAJOR, Q_MN_MAJOR, FINISHES>;
  else
    return nullptr;
}

template <typename T, bool P_MN_MAJOR, bool Q_MN_MAJOR, bool FINISHES, bool GROUPED,
          typename... Tiles>
Kernel<HopperArguments> hopper_function_of(TileList<Tiles...>, int tile) {
  static const Kernel<HopperArguments> functions[] = {
      hopper_instance<Tiles, T, P_MN_MAJOR, Q_MN_MAJOR, FINISHES, GROUPED>()...};
  return functions[tile];
}

template <typename T, bool P_MN_MAJOR, bool Q_MN_MAJOR, bool GROUPED = false>
Kernel<HopperArguments> hopper_function(int tile, bool finishes) {
  const HopperTiles tiles;
  return finishes ? hopper_function_of<T, P_MN_MAJOR, Q_MN_MAJOR, true, GROUPED>(tiles, tile)
                  : hopper_function_of<T, P_MN_MAJOR, Q_MN_MAJOR, false, GROUPED>(tiles, tile);
}

}  // namespace tiled
