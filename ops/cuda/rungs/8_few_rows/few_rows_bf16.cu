// few_rows for bf16.
#include "cuda/rungs/8_few_rows/few_rows.cuh"

namespace tiled {

Kernel<FewRowsArguments> few_rows_bf16(int tile, bool p_mn_major) {
  return p_mn_major ? few_rows_function<__nv_bfloat16, true>(FewRowsTiles(), tile)
                    : few_rows_function<__nv_bfloat16, false>(FewRowsTiles(), tile);
}

}  // namespace tiled
