// The ladder: a line for each rung, from the lowest up. Each stands in its folder's plan.cpp.
#include <iterator>

#include "cuda/plan/rung.h"

namespace tiled {

extern const Rung NAIVE, SHARED_TILE_8, SHARED_TILE_16, SHARED_TILE_32, REGISTER_TILE, MMA_TILE,
    TMA_WGMMA, WARP_SPECIALIZED, HOPPER, FEW_ROWS, FP16X3;

Ladder ladder() {
  static constexpr const Rung* RUNGS[] = {
      &NAIVE,     &SHARED_TILE_8,    &SHARED_TILE_16, &SHARED_TILE_32, &REGISTER_TILE, &MMA_TILE,
      &TMA_WGMMA, &WARP_SPECIALIZED, &HOPPER,         &FEW_ROWS,       &FP16X3};
  return {RUNGS, static_cast<int>(std::size(RUNGS))};
}

}  // namespace tiled
