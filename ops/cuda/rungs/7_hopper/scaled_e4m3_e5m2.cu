// Scaled products of P in e4m3 and Q in e5m2.
#include "cuda/rungs/7_hopper/scaled_table.cuh"

namespace tiled {

Kernel<ScaledArguments> scaled_e4m3_e5m2(ScaledKernel kernel) {
  return scaled_function<ptx::E4m3, ptx::E5m2>(kernel);
}

}  // namespace tiled
