// few_rows for bf16 by mma.sync.
#include "cuda/rungs/8_few_rows/few_rows_warps.cuh"

namespace tiled {

template <typename Tile, bool P_MN_MAJOR>
using WarpsOfBf16 = FewRowsByWarps<Tile, __nv_bfloat16, P_MN_MAJOR>;

Kernel<FewRowsArguments> few_rows_warps_bf16(int tile, bool p_mn_major) {
  return few_rows_kernel<FewRowsBy::Warps, WarpsOfBf16>(tile, p_mn_major);
}

}  // namespace tiled
