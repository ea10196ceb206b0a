// A grid of persistent clusters for stream-K (wrap_around.h). Host and device.
#pragma once

#include "cuda/parts/hand_over.h"
#include "cuda/parts/wrap_around.h"

namespace tiled {

struct CutGrid {
  WrapAround wrap;     // of the grid's units
  HandOver hand_over;  // by blocks, or by CutTurns
};

}  // namespace tiled
