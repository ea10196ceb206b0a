// The instances of scaled products, by tile. Those of groups, whose rows beyond the last are
// cleared, all finish.
#pragma once

#include "cuda/rungs/7_hopper/hopper_scaled.cuh"
#include "cuda/rungs/7_hopper/kernels.h"

namespace tiled {

// Null where none is planned for.
template <typename Tile, typename T>
Kernel<ScaledArguments> scaled_instance(ScaledKernel kernel) {
  if constexpr (OF_SCALED_GROUPS<Tile>)
    if (kernel.grouped) return &hopper_scaled_of_groups<Tile, T, true>;
  if constexpr (OF_SCALED<Tile>)
    if (!kernel.grouped)
      return kernel.finishes ? &hopper_scaled<Tile, T, true> : &hopper_scaled<Tile, T, false>;
  return nullptr;
}

template <typename T, typename... Tiles>
Kernel<ScaledArguments> scaled_function_of(TileList<Tiles...>, ScaledKernel kernel) {
  static constexpr Kernel<ScaledArguments> (*INSTANCES[])(ScaledKernel) = {
      &scaled_instance<Tiles, T>...};
  return INSTANCES[kernel.tile](kernel);
}

template <typename P, typename Q>
Kernel<ScaledArguments> scaled_function(ScaledKernel kernel) {
  return kernel.fp16 ? scaled_function_of<Fp8Scaled<P, Q, __half>>(HopperTiles(), kernel)
                     : scaled_function_of<Fp8Scaled<P, Q, __nv_bfloat16>>(HopperTiles(), kernel);
}

}  // namespace tiled
