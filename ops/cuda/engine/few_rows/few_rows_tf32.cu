// few_rows for tf32, whose operands wgmma reads in shared memory along K alone.
#include "cuda/engine/few_rows/few_rows.cuh"
#include "cuda/engine/few_rows/few_rows_registers.cuh"
#include "cuda/engine/few_rows/instances.cuh"

namespace tiled {

struct OfTf32 {
  template <typename Tile, bool TREES, bool P_MN_MAJOR, bool>
  using Of = FewRowsByWgmma<Tile, ptx::Tf32, TREES, P_MN_MAJOR>;
};
struct OfRegisters {
  template <typename Tile, bool TREES, bool P_MN_MAJOR, bool>
  using Of = FewRowsByRegisters<Tile, TREES, P_MN_MAJOR>;
};

template <>
FewRowsKernel<false> few_rows_tf32<false>(int tile, bool p_mn_major) {
  return p_mn_major ? few_rows_kernel<FewRowsBy::Registers, OfRegisters, false, true>(tile)
                    : few_rows_kernel<FewRowsBy::Wgmma, OfTf32, false, false>(tile);
}
template <>
FewRowsKernel<true> few_rows_tf32<true>(int tile, bool) {
  return few_rows_kernel<FewRowsBy::Wgmma, OfTf32, true, false>(tile);
}

}  // namespace tiled
