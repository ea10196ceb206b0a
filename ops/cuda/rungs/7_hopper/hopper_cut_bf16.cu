// hopper for bf16 where tiles are cut in time: P and Q either way.
#include "cuda/rungs/7_hopper/hopper_cut.cuh"

namespace tiled {

Kernel<HopperCutArguments> hopper_cut_bf16(int tile, bool p_mn_major, bool q_mn_major) {
  return hopper_cut_function<__nv_bfloat16>(tile, p_mn_major, q_mn_major);
}

}  // namespace tiled
