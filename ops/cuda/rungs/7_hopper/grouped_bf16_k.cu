// hopper for bf16 in groups, P K-major: Q either way.
#include "cuda/rungs/7_hopper/hopper_table.cuh"

namespace tiled {

Kernel<HopperArguments> grouped_bf16_k(int tile, bool q_mn_major, bool finishes) {
  return q_mn_major
             ? hopper_function<__nv_bfloat16, false, true, /*GROUPED=*/true>(tile, finishes)
             : hopper_function<__nv_bfloat16, false, false, /*GROUPED=*/true>(tile, finishes);
}

}  // namespace tiled
