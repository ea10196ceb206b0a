// async_mma for fp16 on compute capability 7.5.
#include "cuda/rungs/10_async_mma/async_mma.cuh"

namespace tiled {

Kernel<AsyncMmaArguments> async_mma_held_fp16(bool a_along_m, bool b_along_n, int tile,
                                              bool of_groups) {
  if (a_along_m) return async_mma_function<__half, true, true>(HeldTiles(), tile, of_groups);
  if (b_along_n) return async_mma_function<__half, false, true>(HeldTiles(), tile, of_groups);
  return async_mma_function<__half, false, false>(HeldTiles(), tile, of_groups);
}

}  // namespace tiled
