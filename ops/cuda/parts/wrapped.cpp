#include "cuda/parts/wrapped.h"

#include "cuda/parts/wrapped_plan.h"

namespace tiled {

cudaError_t launch_wrapped(Kernel<WrappedArguments> kernel, const Problem& read, const Plan& plan,
                           int32_t blocks, void* workspace, int64_t behind, cudaStream_t stream) {
  const WrappedLayout l = wrapped_layout(plan, read.dtype, blocks, behind);
  const auto tiles = static_cast<uint32_t>(plan.tiles_m * plan.tiles_n);
  const auto steps = static_cast<uint32_t>((read.k + plan.block_k - 1) / plan.block_k);
  WrappedArguments args{};
  args.problem = read;
  args.cuts.wrap = WrapAround::of(tiles, static_cast<uint32_t>(blocks), steps);
  args.cuts.hand_over = hand_over_at(static_cast<char*>(workspace), l.accumulators_at, l.words_at);
  const Step& product = plan.main_step();
  const cudaError_t error = launch_clear_words(args.cuts.hand_over, blocks, (&product)[-1], stream);
  if (error != cudaSuccess) return error;
  // Not early: beside the end of the kernel before, blocks would crowd on the multiprocessors that
  // have room, two on some and none on others, and they are made to do the same, each in its place.
  return launch_kernel(kernel, product, stream, args);
}

}  // namespace tiled
