// Which kernels a tile of rung async_mma has, for tile.cu.in.
#pragma once

#include "cuda/engine/async_mma/async_mma.cuh"
#include "cuda/engine/async_mma/kernels.h"

namespace tiled {

template <typename Tile, typename T, bool A_ALONG_M, bool B_ALONG_N>
Kernel<AsyncMmaArguments> async_mma_kernel_of(const AsyncMmaKernel& kernel) {
  if (!kernel.of_groups) return &async_mma<Tile, T, A_ALONG_M, B_ALONG_N>;
  if constexpr (Tile::ANY) return &async_mma_of_groups<Tile, T, A_ALONG_M, B_ALONG_N>;
  return nullptr;
}

template <typename Tile, typename T>
Kernel<AsyncMmaArguments> async_mma_by_layout(const AsyncMmaKernel& kernel) {
  if (kernel.a_along_m) return async_mma_kernel_of<Tile, T, true, true>(kernel);
  if (kernel.b_along_n) return async_mma_kernel_of<Tile, T, false, true>(kernel);
  return async_mma_kernel_of<Tile, T, false, false>(kernel);
}

template <typename Tile>
Kernel<AsyncMmaArguments> async_mma_kernel(const AsyncMmaKernel& kernel) {
  if constexpr (!Tile::SM75) {
    if (kernel.dtype == DType::BFloat16) return async_mma_by_layout<Tile, __nv_bfloat16>(kernel);
    if (kernel.dtype == DType::Float32)
      return async_mma_kernel_of<Tile, float, false, false>(kernel);
    if (kernel.dtype != DType::Float16)
      return kernel.is_signed ? async_mma_kernel_of<Tile, signed char, false, false>(kernel)
                              : async_mma_kernel_of<Tile, unsigned char, false, false>(kernel);
  }
  return async_mma_by_layout<Tile, __half>(kernel);
}

}  // namespace tiled
