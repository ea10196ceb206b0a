// few_rows for fp32: a lane has a row of the weight and a chain for each of its columns, whose
// values all lanes read at once (chains.cuh).
//
// Bound by memory, below some 2,500 rows of P by the chain (4 cycles and a little a multiply-add),
// and from 8 columns on by shared memory's rate. Next: patches.cu, for a C that is small in both
// directions.
#include "cuda/rungs/8_few_rows/chains.cuh"

namespace tiled {

template <typename Tile, bool P_MN_MAJOR>
class FewRowsByLanes : public FewRowsChains<Tile, P_MN_MAJOR, false> {
 public:
  using FewRowsChains<Tile, P_MN_MAJOR, false>::FewRowsChains;
};

Kernel<FewRowsArguments> few_rows_lanes(int tile, bool p_mn_major) {
  return few_rows_kernel<FewRowsBy::Lanes, FewRowsByLanes>(tile, p_mn_major);
}

}  // namespace tiled
