// hopper for fp16, P K-major: every tile, Q either way.
#include "cuda/rungs/7_hopper/hopper_table.cuh"

namespace tiled {

Kernel<HopperArguments> hopper_fp16_k(int tile, bool q_mn_major) {
  return hopper_function<__half, false>(tile, q_mn_major);
}

}  // namespace tiled
