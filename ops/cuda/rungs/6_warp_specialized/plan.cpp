// Rung warp_specialized as the planner sees it.
#include "cuda/plan/lesson.h"
#include "cuda/rungs/6_warp_specialized/tile.h"

namespace tiled {

extern const Rung WarpSpecializedRung = LESSON<Algo::WarpSpecialized, WarpSpecializedTile>;

}  // namespace tiled
