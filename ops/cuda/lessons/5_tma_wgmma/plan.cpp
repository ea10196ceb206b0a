// Rung tma_wgmma as the planner sees it.
#include "cuda/lessons/5_tma_wgmma/tile.h"
#include "cuda/plan/lesson.h"

namespace tiled {

extern const Rung TmaWgmmaRung = LESSON<Algo::TmaWgmma, TmaWgmmaTile>;

}  // namespace tiled
