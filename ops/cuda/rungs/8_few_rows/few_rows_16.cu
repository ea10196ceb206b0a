// few_rows for 16 bits, by wgmma and by mma.sync.
#include "cuda/rungs/8_few_rows/few_rows.cuh"
#include "cuda/rungs/8_few_rows/few_rows_warps.cuh"

namespace tiled {

template <typename Tile, bool P_MN_MAJOR>
using Bf16ByWgmma = FewRowsByWgmma<Tile, __nv_bfloat16, P_MN_MAJOR>;
template <typename Tile, bool P_MN_MAJOR>
using Fp16ByWgmma = FewRowsByWgmma<Tile, __half, P_MN_MAJOR>;
template <typename Tile, bool P_MN_MAJOR>
using Bf16ByWarps = FewRowsByWarps<Tile, __nv_bfloat16, P_MN_MAJOR>;
template <typename Tile, bool P_MN_MAJOR>
using Fp16ByWarps = FewRowsByWarps<Tile, __half, P_MN_MAJOR>;

Kernel<FewRowsArguments> few_rows_bf16(int tile, bool p_mn_major) {
  return few_rows_kernel<FewRowsBy::Wgmma, Bf16ByWgmma>(tile, p_mn_major);
}

Kernel<FewRowsArguments> few_rows_fp16(int tile, bool p_mn_major) {
  return few_rows_kernel<FewRowsBy::Wgmma, Fp16ByWgmma>(tile, p_mn_major);
}

Kernel<FewRowsArguments> few_rows_warps_bf16(int tile, bool p_mn_major) {
  return few_rows_kernel<FewRowsBy::Warps, Bf16ByWarps>(tile, p_mn_major);
}

Kernel<FewRowsArguments> few_rows_warps_fp16(int tile, bool p_mn_major) {
  return few_rows_kernel<FewRowsBy::Warps, Fp16ByWarps>(tile, p_mn_major);
}

}  // namespace tiled
