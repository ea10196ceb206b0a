// hopper for tf32 where tiles are cut in time, Q K-major, P either way; and the choice among the
// element types.
#include "cuda/rungs/7_hopper/hopper_cut.cuh"
#include "cuda/rungs/7_hopper/hopper_registers.cuh"

namespace tiled {

Kernel<HopperCutArguments> hopper_cut_kernel(DType dtype, int tile, bool p_mn_major,
                                             bool q_mn_major) {
  switch (dtype) {
    case DType::BFloat16: return hopper_cut_bf16(tile, p_mn_major, q_mn_major);
    case DType::Float16: return hopper_cut_fp16(tile, p_mn_major, q_mn_major);
    default:
      return p_mn_major ? hopper_cut_function_of<ptx::Tf32, true, false>(HopperTiles(), tile)
                        : hopper_cut_function_of<ptx::Tf32, false, false>(HopperTiles(), tile);
  }
}

}  // namespace tiled
