// few_rows for fp16.
#include "cuda/rungs/8_few_rows/few_rows.cuh"

namespace tiled {

Kernel<FewRowsArguments> few_rows_fp16(int tile, bool p_mn_major) {
  return p_mn_major ? few_rows_function<__half, true>(FewRowsTiles(), tile)
                    : few_rows_function<__half, false>(FewRowsTiles(), tile);
}

}  // namespace tiled
