// Scaled products of int8.
#include "cuda/rungs/7_hopper/scaled_table.cuh"

namespace tiled {

Kernel<ScaledArguments> scaled_s8(ScaledKernel kernel) {
  return kernel.fp16 ? scaled_function_of<Int8Scaled<__half>>(HopperTiles(), kernel)
                     : scaled_function_of<Int8Scaled<__nv_bfloat16>>(HopperTiles(), kernel);
}

}  // namespace tiled
