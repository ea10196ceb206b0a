// few_rows for fp32: a lane has a row of the weight and a chain for each of its columns, whose
// values all lanes read at once (chains.cuh).
//
// Bound by memory, below some 2,500 rows of P by the chain (4 cycles and a little a multiply-add),
// and from 8 columns on by shared memory's rate. patches.cu is for a C that is small in both
// directions.
#include "cuda/engine/few_rows/chains.cuh"
#include "cuda/engine/few_rows/instances.cuh"

namespace tiled {

template <typename Tile, bool TREES, bool P_MN_MAJOR>
class FewRowsByLanes : public FewRowsChains<Tile, TREES, P_MN_MAJOR, false> {
 public:
  using FewRowsChains<Tile, TREES, P_MN_MAJOR, false>::FewRowsChains;
};
struct OfLanes {
  template <typename Tile, bool TREES, bool P_MN_MAJOR, bool>
  using Of = FewRowsByLanes<Tile, TREES, P_MN_MAJOR>;
};

template <bool TREES>
FewRowsKernel<TREES> few_rows_lanes(int tile, bool p_mn_major) {
  return few_rows_kernel<FewRowsBy::Lanes, OfLanes, TREES>(tile, p_mn_major);
}
template FewRowsKernel<false> few_rows_lanes<false>(int, bool);
template FewRowsKernel<true> few_rows_lanes<true>(int, bool);

}  // namespace tiled
