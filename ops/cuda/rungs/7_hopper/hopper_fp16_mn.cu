// hopper for fp16, P MN-major: every tile, Q either way.
#include "cuda/rungs/7_hopper/hopper_table.cuh"

namespace tiled {

Kernel<HopperArguments> hopper_fp16_mn(int tile, bool q_mn_major, bool finishes) {
  return q_mn_major ? hopper_function<__half, true, true>(tile, finishes)
                    : hopper_function<__half, true, false>(tile, finishes);
}

}  // namespace tiled
