// few_rows for fp32 where C is small in both directions, or K is deep: a lane has a thread tile of
// rows and columns, as in register_tile, and so a value from shared memory is used more than once
// (chains.cuh).
//
//     warp: 8 x 4 lanes        a thread tile of 2 x 4, 16 bytes of k: 32 multiply-adds for 6 loads
//       l0  l2  .. l14
//       l1  l3  .. l15  ...
//
// Both operands come by TMA in their own layout, so that nothing is transposed and no thread
// copies. Bound by the multiply-adds and the loads, which four warps do not hide behind them: where
// larger thread tiles would fit, register_tile is ahead.
#include "cuda/engine/few_rows/chains.cuh"
#include "cuda/engine/few_rows/instances.cuh"

namespace tiled {

template <typename Tile, bool TREES, bool P_MN_MAJOR, bool Q_MN_MAJOR>
class FewRowsByPatches : public FewRowsChains<Tile, TREES, P_MN_MAJOR, Q_MN_MAJOR> {
 public:
  using FewRowsChains<Tile, TREES, P_MN_MAJOR, Q_MN_MAJOR>::FewRowsChains;
};
struct OfPatches {
  template <typename Tile, bool TREES, bool P_MN_MAJOR, bool Q_MN_MAJOR>
  using Of = FewRowsByPatches<Tile, TREES, P_MN_MAJOR, Q_MN_MAJOR>;
};

template <bool TREES>
FewRowsKernel<TREES> few_rows_patches(int tile, bool p_mn_major, bool q_mn_major) {
  return few_rows_kernel<FewRowsBy::Patches, OfPatches, TREES>(tile, p_mn_major, q_mn_major);
}
template FewRowsKernel<false> few_rows_patches<false>(int, bool, bool);
template FewRowsKernel<true> few_rows_patches<true>(int, bool, bool);

}  // namespace tiled
