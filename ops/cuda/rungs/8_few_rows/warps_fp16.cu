// few_rows for fp16 by mma.sync.
#include "cuda/rungs/8_few_rows/few_rows_warps.cuh"

namespace tiled {

template <typename Tile, bool P_MN_MAJOR>
using WarpsOfFp16 = FewRowsByWarps<Tile, __half, P_MN_MAJOR>;

Kernel<FewRowsArguments> few_rows_warps_fp16(int tile, bool p_mn_major) {
  constexpr FewRowsBy BY = FewRowsBy::Warps;
  return p_mn_major ? few_rows_kernel<BY, WarpsOfFp16, true>(FewRowsTiles(), tile)
                    : few_rows_kernel<BY, WarpsOfFp16, false>(FewRowsTiles(), tile);
}

}  // namespace tiled
