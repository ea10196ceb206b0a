// async_mma for fp16 where A and B are contiguous along k.
#include "cuda/rungs/10_async_mma/async_mma.cuh"

namespace tiled {

Kernel<AsyncMmaArguments> async_mma_fp16_nt(int tile, bool of_groups) {
  return async_mma_function<__half, false, false>(AsyncMmaTiles(), tile, of_groups);
}

}  // namespace tiled
