// async_mma for bf16 where A and B are contiguous along k.
#include "cuda/rungs/10_async_mma/async_mma.cuh"

namespace tiled {

Kernel<AsyncMmaArguments> async_mma_bf16_nt(int tile, bool of_groups) {
  return async_mma_function<__nv_bfloat16, false, false>(AsyncMmaTiles(), tile, of_groups);
}

}  // namespace tiled
