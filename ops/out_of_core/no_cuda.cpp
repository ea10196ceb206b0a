// A library built without CUDA streams no product: one clear error.
#include "torch/no_cuda.h"

#include <c10/util/Exception.h>

#include "out_of_core/plan.h"

namespace tiled {

std::vector<OutOfCoreTarget> cuda_targets(const OutOfCoreProduct&, const OutOfCoreOptions&) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "out_of_core computes on GPUs, but " TILED_MM_BUILT_WITHOUT_CUDA TILED_MM_BUILD_AGAIN
             "; on the CPU there is tiled_mm.mm, and explain_out_of_core "
             "plans for a GPU that it is told, as device='h200'");
}

}  // namespace tiled
