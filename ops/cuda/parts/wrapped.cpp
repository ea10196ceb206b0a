#include "cuda/parts/wrapped.h"

namespace tiled {

cudaError_t launch_wrapped(Kernel<WrappedArguments> kernel, const Problem& read, const Call& call,
                           const Step& step) {
  const Plan& plan = call.plan;
  const auto tiles = static_cast<uint32_t>(plan.tiles_m * plan.tiles_n);
  const auto steps = static_cast<uint32_t>((read.k + plan.block_k - 1) / plan.block_k);
  WrappedArguments args{};
  args.problem = read;
  args.cuts.wrap = WrapAround::of(tiles, static_cast<uint32_t>(step.grid_x), steps);
  args.cuts.hand_over = call.hand_over();
  // Not early: beside the end of the kernel before, blocks would crowd on the multiprocessors that
  // have room, two on some and none on others, and they are made to do the same, each in its place.
  return launch_kernel(kernel, step, call.stream, args);
}

}  // namespace tiled
