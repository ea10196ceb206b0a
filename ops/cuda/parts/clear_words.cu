// The words by which the blocks of a kernel whose tiles are cut in time find each other, set to
// zero before it (parts/wrapped.h).
#include "cuda/parts/early_start.cuh"
#include "cuda/parts/fault.cuh"
#include "cuda/parts/wrapped.h"

namespace tiled {
namespace {

struct ClearArguments {
  HandOver hand_over;
  uint32_t groups;
};

__global__ void clear_words(const __grid_constant__ ClearArguments args) {
  let_the_next_start();
  wait_for_kernels_before();  // the workspace may be theirs
  for (uint32_t i = threadIdx.x; i < args.groups; i += blockDim.x)
    if (FAULT != Fault::NoClear) args.hand_over.flags[i] = 0;
  if (threadIdx.x == 0) *args.hand_over.ticket = 0;
}

}  // namespace

cudaError_t launch_clear_words(const HandOver& hand_over, int64_t groups, const Step& step,
                               cudaStream_t stream) {
  return launch_early(&clear_words, step, stream,
                      ClearArguments{hand_over, static_cast<uint32_t>(groups)});
}

}  // namespace tiled
