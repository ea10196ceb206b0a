// Rung warp_specialized as the planner sees it.
#include "cuda/lessons/6_warp_specialized/tile.h"
#include "cuda/plan/lesson.h"

namespace tiled {

extern const Rung WarpSpecializedRung = LESSON<Algo::WarpSpecialized, WarpSpecializedTile>;

}  // namespace tiled
