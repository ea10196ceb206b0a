// Rung tma_wgmma as the planner sees it.
#include "cuda/plan/lesson.h"
#include "cuda/rungs/5_tma_wgmma/tile.h"

namespace tiled {

extern const Rung TmaWgmmaRung = LESSON<Algo::TmaWgmma, TmaWgmmaTile>;

}  // namespace tiled
