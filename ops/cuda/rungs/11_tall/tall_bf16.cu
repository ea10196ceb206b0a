// tall for bf16.
#include "cuda/rungs/11_tall/tall.cuh"

namespace tiled {

Kernel<TallArguments> tall_bf16(const TallKernel& kernel) {
  return tall_function<__nv_bfloat16>(TensorTallTiles(), kernel);
}

}  // namespace tiled
