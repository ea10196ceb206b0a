// tall for fp16.
#include "cuda/rungs/11_tall/tall.cuh"

namespace tiled {

Kernel<TallArguments> tall_fp16(const TallKernel& kernel) {
  return tall_function<__half>(TensorTallTiles(), kernel);
}

}  // namespace tiled
