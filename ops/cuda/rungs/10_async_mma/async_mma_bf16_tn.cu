// async_mma for bf16 where A is contiguous along m and B along n.
#include "cuda/rungs/10_async_mma/async_mma.cuh"

namespace tiled {

Kernel<AsyncMmaArguments> async_mma_bf16_tn(int tile, bool of_groups) {
  return async_mma_function<__nv_bfloat16, true, true>(AsyncMmaTiles(), tile, of_groups);
}

}  // namespace tiled
