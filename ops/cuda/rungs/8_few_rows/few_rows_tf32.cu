// few_rows for tf32, whose operands lie along K.
#include "cuda/rungs/8_few_rows/few_rows.cuh"

namespace tiled {

template <typename Tile, bool P_MN_MAJOR>
using ByTf32 = FewRowsByWgmma<Tile, ptx::Tf32, P_MN_MAJOR>;

Kernel<FewRowsArguments> few_rows_tf32(int tile) {
  return few_rows_kernel<FewRowsBy::Wgmma, ByTf32, false>(FewRowsTiles(), tile);
}

}  // namespace tiled
