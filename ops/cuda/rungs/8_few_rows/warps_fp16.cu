// few_rows for fp16 by mma.sync.
#include "cuda/rungs/8_few_rows/few_rows_warps.cuh"

namespace tiled {

template <typename Tile, bool P_MN_MAJOR>
using WarpsOfFp16 = FewRowsByWarps<Tile, __half, P_MN_MAJOR>;

Kernel<FewRowsArguments> few_rows_warps_fp16(int tile, bool p_mn_major) {
  return few_rows_kernel<FewRowsBy::Warps, WarpsOfFp16>(tile, p_mn_major);
}

}  // namespace tiled
