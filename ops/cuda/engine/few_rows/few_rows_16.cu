// few_rows for 16 bits, by wgmma and by mma.sync.
#include "cuda/engine/few_rows/few_rows.cuh"
#include "cuda/engine/few_rows/few_rows_warps.cuh"
#include "cuda/engine/few_rows/instances.cuh"

namespace tiled {

template <typename T>
struct OfWgmma {
  template <typename Tile, bool TREES, bool P_MN_MAJOR, bool>
  using Of = FewRowsByWgmma<Tile, T, TREES, P_MN_MAJOR>;
};
template <typename T>
struct OfWarps {
  template <typename Tile, bool TREES, bool P_MN_MAJOR, bool>
  using Of = FewRowsByWarps<Tile, T, TREES, P_MN_MAJOR>;
};

template <bool TREES>
FewRowsKernel<TREES> few_rows_bf16(int tile, bool p_mn_major) {
  return few_rows_kernel<FewRowsBy::Wgmma, OfWgmma<__nv_bfloat16>, TREES>(tile, p_mn_major);
}
template FewRowsKernel<false> few_rows_bf16<false>(int, bool);
template FewRowsKernel<true> few_rows_bf16<true>(int, bool);

template <bool TREES>
FewRowsKernel<TREES> few_rows_fp16(int tile, bool p_mn_major) {
  return few_rows_kernel<FewRowsBy::Wgmma, OfWgmma<__half>, TREES>(tile, p_mn_major);
}
template FewRowsKernel<false> few_rows_fp16<false>(int, bool);
template FewRowsKernel<true> few_rows_fp16<true>(int, bool);

template <bool TREES>
FewRowsKernel<TREES> few_rows_warps_bf16(int tile, bool p_mn_major) {
  return few_rows_kernel<FewRowsBy::Warps, OfWarps<__nv_bfloat16>, TREES>(tile, p_mn_major);
}
template FewRowsKernel<false> few_rows_warps_bf16<false>(int, bool);
template FewRowsKernel<true> few_rows_warps_bf16<true>(int, bool);

template <bool TREES>
FewRowsKernel<TREES> few_rows_warps_fp16(int tile, bool p_mn_major) {
  return few_rows_kernel<FewRowsBy::Warps, OfWarps<__half>, TREES>(tile, p_mn_major);
}
template FewRowsKernel<false> few_rows_warps_fp16<false>(int, bool);
template FewRowsKernel<true> few_rows_warps_fp16<true>(int, bool);

}  // namespace tiled
