// few_rows for tf32, whose operands wgmma reads in shared memory along K alone.
#include "cuda/rungs/8_few_rows/few_rows.cuh"
#include "cuda/rungs/8_few_rows/few_rows_registers.cuh"

namespace tiled {

template <typename Tile, bool P_MN_MAJOR>
using ByTf32 = FewRowsByWgmma<Tile, ptx::Tf32, P_MN_MAJOR>;

Kernel<FewRowsArguments> few_rows_tf32(int tile, bool p_mn_major) {
  return p_mn_major
             ? few_rows_kernel<FewRowsBy::Registers, FewRowsByRegisters, true>(FewRowsTiles(), tile)
             : few_rows_kernel<FewRowsBy::Wgmma, ByTf32, false>(FewRowsTiles(), tile);
}

}  // namespace tiled
