// hopper for tf32, Q K-major, P either way; and the choice among the element types.
#include "cuda/rungs/7_hopper/hopper_registers.cuh"
#include "cuda/rungs/7_hopper/hopper_table.cuh"

namespace tiled {

Kernel<HopperArguments> hopper_kernel(DType dtype, int tile, bool p_mn_major, bool q_mn_major,
                                      bool finishes) {
  switch (dtype) {
    case DType::BFloat16:
      return p_mn_major ? hopper_bf16_mn(tile, q_mn_major, finishes)
                        : hopper_bf16_k(tile, q_mn_major, finishes);
    case DType::Float16:
      return p_mn_major ? hopper_fp16_mn(tile, q_mn_major, finishes)
                        : hopper_fp16_k(tile, q_mn_major, finishes);
    default:
      return p_mn_major ? hopper_function<ptx::Tf32, true, false>(tile, finishes)
                        : hopper_function<ptx::Tf32, false, false>(tile, finishes);
  }
}

Kernel<HopperArguments> grouped_kernel(DType dtype, int tile, bool p_mn_major, bool q_mn_major,
                                       bool finishes) {
  if (dtype == DType::Float32) return grouped_tf32(tile, q_mn_major, finishes);
  if (dtype == DType::BFloat16)
    return p_mn_major ? grouped_bf16_mn(tile, q_mn_major, finishes)
                      : grouped_bf16_k(tile, q_mn_major, finishes);
  return p_mn_major ? grouped_fp16_mn(tile, q_mn_major, finishes)
                    : grouped_fp16_k(tile, q_mn_major, finishes);
}

}  // namespace tiled
