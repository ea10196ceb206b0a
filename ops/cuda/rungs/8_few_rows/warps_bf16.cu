// few_rows for bf16 by mma.sync.
#include "cuda/rungs/8_few_rows/few_rows_warps.cuh"

namespace tiled {

template <typename Tile, bool P_MN_MAJOR>
using WarpsOfBf16 = FewRowsByWarps<Tile, __nv_bfloat16, P_MN_MAJOR>;

Kernel<FewRowsArguments> few_rows_warps_bf16(int tile, bool p_mn_major) {
  constexpr FewRowsBy BY = FewRowsBy::Warps;
  return p_mn_major ? few_rows_kernel<BY, WarpsOfBf16, true>(FewRowsTiles(), tile)
                    : few_rows_kernel<BY, WarpsOfBf16, false>(FewRowsTiles(), tile);
}

}  // namespace tiled
