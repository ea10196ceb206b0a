// hopper for bf16, P K-major: every tile, Q either way.
#include "cuda/rungs/7_hopper/hopper_table.cuh"

namespace tiled {

Kernel<HopperArguments> hopper_bf16_k(int tile, bool q_mn_major) {
  return hopper_function<__nv_bfloat16, false>(tile, q_mn_major);
}

}  // namespace tiled
