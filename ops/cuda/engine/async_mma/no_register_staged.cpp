// Stands in for the kernels of compute capability 7.5 in a build without it. The planner knows that
// they are missing, so nothing here is called.
#include "cuda/engine/async_mma/kernels.h"

namespace tiled {

template <>
Kernel<AsyncMmaArguments> async_mma_kernel<RegisterStaged128x128>(const AsyncMmaKernel&) {
  return nullptr;
}
template <>
Kernel<AsyncMmaArguments> async_mma_kernel<RegisterStaged64x64>(const AsyncMmaKernel&) {
  return nullptr;
}

}  // namespace tiled
