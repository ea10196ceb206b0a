// Stands in for held_fp16.cu in a build without compute capability 7.5. The planner knows that its
// kernels are missing, so nothing here is called.
#include "cuda/rungs/10_async_mma/kernels.h"

namespace tiled {

Kernel<AsyncMmaArguments> async_mma_held_fp16(bool, bool, int, bool) { return nullptr; }

}  // namespace tiled
