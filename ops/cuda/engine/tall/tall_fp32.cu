// tall for fp32.
#include "cuda/engine/tall/tall.cuh"

namespace tiled {

Kernel<TallArguments> tall_fp32(const TallKernel& kernel) {
  return tall_function<float>(ChainTallTiles(), kernel);
}

}  // namespace tiled
