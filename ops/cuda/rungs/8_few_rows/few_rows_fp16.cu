// few_rows for fp16.
#include "cuda/rungs/8_few_rows/few_rows.cuh"

namespace tiled {

template <typename Tile, bool P_MN_MAJOR>
using ByFp16 = FewRowsByWgmma<Tile, __half, P_MN_MAJOR>;

Kernel<FewRowsArguments> few_rows_fp16(int tile, bool p_mn_major) {
  return few_rows_kernel<FewRowsBy::Wgmma, ByFp16>(tile, p_mn_major);
}

}  // namespace tiled
