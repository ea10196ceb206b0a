// The kernels of rung hopper; float32 means tf32. `finishes`: by an epilogue that is not the
// identity.
#pragma once

#include "cuda/parts/hopper.h"
#include "cuda/parts/launch.h"

namespace tiled {

Kernel<HopperArguments> hopper_kernel(DType dtype, int tile, bool p_mn_major, bool q_mn_major,
                                      bool finishes);

// The same of groups; tf32 lies along k.
Kernel<HopperArguments> grouped_kernel(DType dtype, int tile, bool p_mn_major, bool q_mn_major,
                                       bool finishes);
Kernel<HopperArguments> grouped_bf16_k(int tile, bool q_mn_major, bool finishes);
Kernel<HopperArguments> grouped_bf16_mn(int tile, bool q_mn_major, bool finishes);
Kernel<HopperArguments> grouped_fp16_k(int tile, bool q_mn_major, bool finishes);
Kernel<HopperArguments> grouped_fp16_mn(int tile, bool q_mn_major, bool finishes);
Kernel<HopperArguments> grouped_tf32(int tile, bool q_mn_major, bool finishes);
Kernel<HopperArguments> grouped_s8(int tile);
Kernel<HopperArguments> grouped_u8(int tile);

// Of 16-bit operands, P along k or along m or n.
Kernel<HopperArguments> hopper_bf16_k(int tile, bool q_mn_major, bool finishes);
Kernel<HopperArguments> hopper_bf16_mn(int tile, bool q_mn_major, bool finishes);
Kernel<HopperArguments> hopper_fp16_k(int tile, bool q_mn_major, bool finishes);
Kernel<HopperArguments> hopper_fp16_mn(int tile, bool q_mn_major, bool finishes);

// Of 16-bit operands whose K a tree sums.
Kernel<HopperArguments> tree_bf16_k(int tile, bool q_mn_major);
Kernel<HopperArguments> tree_bf16_mn(int tile, bool q_mn_major);
Kernel<HopperArguments> tree_fp16_k(int tile, bool q_mn_major);
Kernel<HopperArguments> tree_fp16_mn(int tile, bool q_mn_major);

// Of bytes along k, with a sign or without one; C holds their sums or, of u8, the low 8 bits.
Kernel<HopperArguments> hopper_s8(int tile);
Kernel<HopperArguments> hopper_u8(int tile);

// Of scaled products, by the types of P and Q.
struct ScaledKernel {
  int tile;
  bool fp16;  // C is, or else bf16 or fp32
  bool finishes, grouped;
};
Kernel<ScaledArguments> scaled_e4m3_e4m3(ScaledKernel kernel);
Kernel<ScaledArguments> scaled_e4m3_e5m2(ScaledKernel kernel);
Kernel<ScaledArguments> scaled_e5m2_e4m3(ScaledKernel kernel);
Kernel<ScaledArguments> scaled_e5m2_e5m2(ScaledKernel kernel);
Kernel<ScaledArguments> scaled_s8(ScaledKernel kernel);

}  // namespace tiled
