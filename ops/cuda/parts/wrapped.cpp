#include "cuda/parts/wrapped.h"

#include "cuda/plan/wrapped.h"

namespace tiled {

cudaError_t launch_wrapped(Kernel<WrappedArguments> kernel, const Problem& read, const Plan& plan,
                           int32_t blocks, void* workspace, int64_t behind, cudaStream_t stream) {
  const WrappedLayout l = wrapped_layout(plan, read.dtype, blocks, behind);
  char* const base = static_cast<char*>(workspace);
  const auto tiles = static_cast<uint32_t>(plan.tiles_m * plan.tiles_n);
  const auto steps = static_cast<uint32_t>((read.k + plan.block_k - 1) / plan.block_k);
  WrappedArguments args{};
  args.problem = read;
  args.wrap = WrapAround::of(tiles, static_cast<uint32_t>(blocks), steps);
  args.accumulators = base + l.accumulators_at;
  args.ticket = reinterpret_cast<uint32_t*>(base + l.words_at);
  args.flags = args.ticket + 1;
  const Step& product = plan.main_step();
  const cudaError_t error = launch_early(clear_words_kernel(), (&product)[-1], stream, args);
  if (error != cudaSuccess) return error;
  return launch_early(kernel, product, stream, args);
}

}  // namespace tiled
