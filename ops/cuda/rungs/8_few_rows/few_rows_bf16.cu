// few_rows for bf16.
#include "cuda/rungs/8_few_rows/few_rows.cuh"

namespace tiled {

template <typename Tile, bool P_MN_MAJOR>
using ByBf16 = FewRowsByWgmma<Tile, __nv_bfloat16, P_MN_MAJOR>;

Kernel<FewRowsArguments> few_rows_bf16(int tile, bool p_mn_major) {
  return few_rows_kernel<FewRowsBy::Wgmma, ByBf16>(tile, p_mn_major);
}

}  // namespace tiled
