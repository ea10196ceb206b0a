// Scaled products of P in e5m2 and Q in e4m3.
#include "cuda/rungs/7_hopper/scaled_table.cuh"

namespace tiled {

Kernel<ScaledArguments> scaled_e5m2_e4m3(ScaledKernel kernel) {
  return scaled_function<ptx::E5m2, ptx::E4m3>(kernel);
}

}  // namespace tiled
