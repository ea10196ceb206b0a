// few_rows for fp64.
#include "cuda/rungs/8_few_rows/few_rows.cuh"

namespace tiled {

Kernel<FewRowsArguments> few_rows_fp64(int tile, bool p_mn_major) {
  return p_mn_major ? few_rows_function<double, true>(FewRowsTiles(), tile)
                    : few_rows_function<double, false>(FewRowsTiles(), tile);
}

}  // namespace tiled
