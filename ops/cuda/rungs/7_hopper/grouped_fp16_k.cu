// hopper for fp16 in groups, P K-major: Q either way.
#include "cuda/rungs/7_hopper/hopper_table.cuh"

namespace tiled {

Kernel<HopperArguments> grouped_fp16_k(int tile, bool q_mn_major, bool finishes) {
  return q_mn_major ? hopper_function<__half, false, true, /*GROUPED=*/true>(tile, finishes)
                    : hopper_function<__half, false, false, /*GROUPED=*/true>(tile, finishes);
}

}  // namespace tiled
