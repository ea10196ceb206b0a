// async_mma for bytes with a sign whose sums C keeps whole.
#include "cuda/rungs/10_async_mma/async_mma.cuh"

namespace tiled {

Kernel<AsyncMmaArguments> async_mma_signed_int8(int tile, bool of_groups) {
  return async_mma_function<signed char, false, false>(AsyncMmaTiles(), tile, of_groups);
}

}  // namespace tiled
