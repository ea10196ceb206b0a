// hopper for fp16, P K-major: every tile, Q either way.
#include "cuda/rungs/7_hopper/hopper_table.cuh"

namespace tiled {

Kernel<HopperArguments> hopper_fp16_k(int tile, bool q_mn_major, bool finishes) {
  return q_mn_major ? hopper_function<__half, false, true>(tile, finishes)
                    : hopper_function<__half, false, false>(tile, finishes);
}

}  // namespace tiled
