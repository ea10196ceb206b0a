// async_mma for bytes, with or without a sign where C has the low 8 bits of their sums, and without
// one where it has all 32.
#include "cuda/rungs/10_async_mma/async_mma.cuh"

namespace tiled {

Kernel<AsyncMmaArguments> async_mma_int8(int tile, bool of_groups) {
  return async_mma_function<unsigned char, false, false>(AsyncMmaTiles(), tile, of_groups);
}

}  // namespace tiled
