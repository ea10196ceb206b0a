// Which kernels a tile of rung hopper has, for tile.cu.in.
#pragma once

#include "cuda/engine/hopper/hopper_kernel.cuh"
#include "cuda/engine/hopper/hopper_registers.cuh"
#include "cuda/engine/hopper/hopper_scaled.cuh"
#include "cuda/engine/hopper/kernels.h"

namespace tiled {

template <typename Tile, typename T, bool P_MN_MAJOR, bool Q_MN_MAJOR>
Kernel<HopperArguments> hopper_kernel_of(const HopperKernel& kernel) {
  if (kernel.grouped) {
    if constexpr (OF_GROUPS<Tile> && sizeof(T) == 1)
      return &hopper_of_groups<Tile, T, P_MN_MAJOR, Q_MN_MAJOR, false>;
    else if constexpr (OF_GROUPS<Tile> && !(sizeof(T) == 4 && P_MN_MAJOR))
      return kernel.finishes ? &hopper_of_groups<Tile, T, P_MN_MAJOR, Q_MN_MAJOR, true>
                             : &hopper_of_groups<Tile, T, P_MN_MAJOR, Q_MN_MAJOR, false>;
  } else {
    if constexpr (sizeof(T) == 1)
      return &hopper<Tile, T, P_MN_MAJOR, Q_MN_MAJOR, false>;
    else if constexpr (!ONLY_BYTES<Tile> && has_hopper_kernel<Tile, T, P_MN_MAJOR>())
      return kernel.finishes ? &hopper<Tile, T, P_MN_MAJOR, Q_MN_MAJOR, true>
                             : &hopper<Tile, T, P_MN_MAJOR, Q_MN_MAJOR, false>;
  }
  return nullptr;
}

template <typename Tile, typename T>
Kernel<HopperArguments> hopper_by_layout(const HopperKernel& kernel) {
  const bool p = kernel.p_mn_major, q = kernel.q_mn_major;
  if constexpr (sizeof(T) == 2) {
    if (q)
      return (p ? &hopper_kernel_of<Tile, T, true, true>
                : &hopper_kernel_of<Tile, T, false, true>)(kernel);
  }
  if constexpr (sizeof(T) > 1)
    if (p) return hopper_kernel_of<Tile, T, true, false>(kernel);
  return hopper_kernel_of<Tile, T, false, false>(kernel);
}

template <typename Tile>
Kernel<HopperArguments> hopper_kernel(const HopperKernel& kernel) {
  switch (kernel.dtype) {
    case DType::BFloat16: return hopper_by_layout<Tile, __nv_bfloat16>(kernel);
    case DType::Float16: return hopper_by_layout<Tile, __half>(kernel);
    case DType::Float32: return hopper_by_layout<Tile, ptx::Tf32>(kernel);
    default:
      return kernel.is_signed ? hopper_by_layout<Tile, signed char>(kernel)
                              : hopper_by_layout<Tile, unsigned char>(kernel);
  }
}

// K is summed by a tree in 16 bits alone.
template <typename Tile, typename T>
Kernel<TreeArguments> tree_kernel_of(const HopperKernel& kernel) {
  if (kernel.p_mn_major)
    return kernel.q_mn_major ? &hopper_of_trees<Tile, T, true, true>
                             : &hopper_of_trees<Tile, T, true, false>;
  return kernel.q_mn_major ? &hopper_of_trees<Tile, T, false, true>
                           : &hopper_of_trees<Tile, T, false, false>;
}

template <typename Tile>
Kernel<TreeArguments> tree_kernel(const HopperKernel& kernel) {
  if constexpr (OF_TREES<Tile>)
    return kernel.dtype == DType::BFloat16 ? tree_kernel_of<Tile, __nv_bfloat16>(kernel)
                                           : tree_kernel_of<Tile, __half>(kernel);
  return nullptr;
}

template <typename Tile, typename T>
Kernel<ScaledArguments> scaled_kernel_of(const ScaledKernel& kernel) {
  if constexpr (OF_SCALED_GROUPS<Tile>)
    if (kernel.grouped) return &hopper_scaled_of_groups<Tile, T, true>;
  if constexpr (OF_SCALED<Tile>)
    if (!kernel.grouped)
      return kernel.finishes ? &hopper_scaled<Tile, T, true> : &hopper_scaled<Tile, T, false>;
  return nullptr;
}

template <typename Tile, template <typename C> typename Operands>
Kernel<ScaledArguments> by_result(const ScaledKernel& kernel) {
  return kernel.fp16 ? scaled_kernel_of<Tile, Operands<__half>>(kernel)
                     : scaled_kernel_of<Tile, Operands<__nv_bfloat16>>(kernel);
}
template <typename P, typename Q>
struct Fp8 {
  template <typename C>
  using Operands = Fp8Scaled<P, Q, C>;
};

template <typename Tile>
Kernel<ScaledArguments> scaled_kernel(const ScaledKernel& kernel) {
  using ptx::E4m3, ptx::E5m2;
  if (kernel.p == DType::Int8) return by_result<Tile, Int8Scaled>(kernel);
  if (kernel.p == DType::Float8E4M3FN)
    return kernel.q == DType::Float8E4M3FN ? by_result<Tile, Fp8<E4m3, E4m3>::Operands>(kernel)
                                           : by_result<Tile, Fp8<E4m3, E5m2>::Operands>(kernel);
  return kernel.q == DType::Float8E4M3FN ? by_result<Tile, Fp8<E5m2, E4m3>::Operands>(kernel)
                                         : by_result<Tile, Fp8<E5m2, E5m2>::Operands>(kernel);
}

}  // namespace tiled
