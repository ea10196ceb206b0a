// tall for 16 bits, on tensor cores.
#include "cuda/engine/tall/tall.cuh"

namespace tiled {

Kernel<TallArguments> tall_bf16(const TallKernel& kernel) {
  return tall_function<__nv_bfloat16>(TensorTallTiles(), kernel);
}

Kernel<TallArguments> tall_fp16(const TallKernel& kernel) {
  return tall_function<__half>(TensorTallTiles(), kernel);
}

}  // namespace tiled
