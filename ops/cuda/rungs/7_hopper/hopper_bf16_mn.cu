// hopper for bf16, P MN-major: every tile, Q either way.
#include "cuda/rungs/7_hopper/hopper_table.cuh"

namespace tiled {

Kernel<HopperArguments> hopper_bf16_mn(int tile, bool q_mn_major, bool finishes) {
  return q_mn_major ? hopper_function<__nv_bfloat16, true, true>(tile, finishes)
                    : hopper_function<__nv_bfloat16, true, false>(tile, finishes);
}

}  // namespace tiled
