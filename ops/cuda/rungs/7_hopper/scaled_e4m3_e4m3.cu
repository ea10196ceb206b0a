// Scaled products of P in e4m3 and Q in e4m3.
#include "cuda/rungs/7_hopper/scaled_table.cuh"

namespace tiled {

Kernel<ScaledArguments> scaled_e4m3_e4m3(ScaledKernel kernel) {
  return scaled_function<ptx::E4m3, ptx::E4m3>(kernel);
}

}  // namespace tiled
