// hopper for tf32 in groups that share out rows or columns: both operands K-major.
#include "cuda/rungs/7_hopper/hopper_table.cuh"

namespace tiled {

Kernel<HopperArguments> grouped_tf32(int tile, bool finishes) {
  return hopper_function<ptx::Tf32, false, false, /*GROUPED=*/true>(tile, finishes);
}

}  // namespace tiled
