// Sets words to zero. Bound by the launch.
#include "cuda/parts/clear.h"
#include "cuda/parts/launch.h"
#include "cuda/ptx/cluster.cuh"

namespace tiled {
namespace {

struct ClearArguments {
  unsigned long long* words;
  int count;
};

__global__ void clear_words(const __grid_constant__ ClearArguments args) {
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
  for (int i = threadIdx.x; i < args.count; i += blockDim.x) args.words[i] = 0;
}

}  // namespace

cudaError_t launch_clear_words(unsigned long long* words, int count, const Step& step,
                               cudaStream_t stream) {
  return launch_early(&clear_words, step, stream, ClearArguments{words, count});
}

}  // namespace tiled
