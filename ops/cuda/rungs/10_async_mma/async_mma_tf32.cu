// async_mma for fp32 inputs, rounded to tf32.
#include "cuda/rungs/10_async_mma/async_mma.cuh"

namespace tiled {

Kernel<AsyncMmaArguments> async_mma_tf32(int tile, bool of_groups) {
  return async_mma_function<float, false, false>(AsyncMmaTiles(), tile, of_groups);
}

}  // namespace tiled
