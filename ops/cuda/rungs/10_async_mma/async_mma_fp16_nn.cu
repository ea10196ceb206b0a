// async_mma for fp16 where A is contiguous along k and B along n.
#include "cuda/rungs/10_async_mma/async_mma.cuh"

namespace tiled {

Kernel<AsyncMmaArguments> async_mma_fp16_nn(int tile, bool of_groups) {
  return async_mma_function<__half, false, true>(AsyncMmaTiles(), tile, of_groups);
}

}  // namespace tiled
