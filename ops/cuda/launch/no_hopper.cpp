// Stands in for the kernels of compute capability 9.0, and for their launches, in a build whose
// architectures leave them out. The planner knows that they are missing (leave_out_hopper_kernels),
// so nothing here is called but for no copies at all.
#include "cuda/launch/launch_tma.h"
#include "cuda/parts/repack.h"
#include "cuda/rungs/kernels.h"

namespace tiled {
namespace {

constexpr cudaError_t MISSING = cudaErrorNoKernelImageForDevice;

}  // namespace

const void* mma_tile_kernel(const Problem&) { return nullptr; }
const void* mma_tile_fp64_kernel(const Problem&, const Plan&) { return nullptr; }
const void* tma_kernel(const Problem&, const Plan&) { return nullptr; }

cudaError_t launch_wgmma(const Problem&, const Plan&, cudaStream_t) { return MISSING; }
cudaError_t launch_hopper(const Problem&, const HopperPlan&, void*, cudaStream_t) {
  return MISSING;
}
cudaError_t launch_fp16x3(const Problem&, const Plan&, void*, cudaStream_t) { return MISSING; }

cudaError_t launch_copies(const Copy*, int count, const Problem&, cudaStream_t) {
  return count == 0 ? cudaSuccess : MISSING;
}

}  // namespace tiled
