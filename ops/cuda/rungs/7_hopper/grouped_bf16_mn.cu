// hopper for bf16 in groups, P MN-major: Q either way.
#include "cuda/rungs/7_hopper/hopper_table.cuh"

namespace tiled {

Kernel<HopperArguments> grouped_bf16_mn(int tile, bool q_mn_major, bool finishes) {
  return q_mn_major ? hopper_function<__nv_bfloat16, true, true, /*GROUPED=*/true>(tile, finishes)
                    : hopper_function<__nv_bfloat16, true, false, /*GROUPED=*/true>(tile, finishes);
}

}  // namespace tiled
