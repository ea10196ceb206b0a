// few_rows for bf16.
#include "cuda/rungs/8_few_rows/few_rows.cuh"

namespace tiled {

template <typename Tile, bool P_MN_MAJOR>
using ByBf16 = FewRowsByWgmma<Tile, __nv_bfloat16, P_MN_MAJOR>;

Kernel<FewRowsArguments> few_rows_bf16(int tile, bool p_mn_major) {
  constexpr FewRowsBy BY = FewRowsBy::Wgmma;
  return p_mn_major ? few_rows_kernel<BY, ByBf16, true>(FewRowsTiles(), tile)
                    : few_rows_kernel<BY, ByBf16, false>(FewRowsTiles(), tile);
}

}  // namespace tiled
