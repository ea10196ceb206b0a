// few_rows for tf32, whose operands lie along K.
#include "cuda/rungs/8_few_rows/few_rows.cuh"

namespace tiled {

Kernel<FewRowsArguments> few_rows_tf32(int tile) {
  return few_rows_function<ptx::Tf32, false>(FewRowsTiles(), tile);
}

}  // namespace tiled
