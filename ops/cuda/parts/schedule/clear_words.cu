// Sets to zero the words by which the blocks of a stream-K kernel find each other, before it runs,
// at every call and replay of a graph (launch_stream_k.h).
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/parts/launch/fault.cuh"
#include "cuda/parts/launch/launch_rung.h"

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

cudaError_t launch_clear_words(const Call& call, const Step& step) {
  return launch_early(&clear_words, step, call.stream,
                      ClearArguments{call.hand_over(), hand_over_groups(step.workspace_bytes)});
}

}  // namespace tiled
