// The launch of rung register_tile, with the copies before it.
#include "cuda/parts/launch_rung.h"
#include "cuda/parts/repack.h"
#include "cuda/rungs/3_register_tile/kernels.h"

namespace tiled {
namespace {

Kernel<ProblemAndTotals> kernel_of(const Problem& problem, const RegisterTileWay& way) {
  return way.async ? register_tile_async_kernel(way) : register_tile_kernel(problem, way);
}

// The tickets and flags are cleared in the stream, at every call and replay.
cudaError_t launch_wrapped(const Problem& read, const Plan& plan, const RegisterTileWay& way,
                           void* workspace, int64_t behind, cudaStream_t stream) {
  const WrappedLayout l = wrapped_layout(plan, way.blocks, behind);
  const auto tiles = static_cast<uint32_t>(plan.tiles_m * plan.tiles_n);
  const auto steps = static_cast<uint32_t>((read.k + plan.block_k - 1) / plan.block_k);
  WrappedArguments args{};
  args.problem = read;
  args.wrap = WrapAround::of(tiles, static_cast<uint32_t>(way.blocks), steps);
  args.hand_over = hand_over_at(static_cast<char*>(workspace), l.accumulators_at, l.words_at);
  const Step& product = plan.main_step();
  const cudaError_t error = launch_kernel(clear_words_kernel(), (&product)[-1], stream, args);
  if (error != cudaSuccess) return error;
  return launch_kernel(register_tile_wrapped_kernel(way), product, stream, args);
}

cudaError_t launch(const Problem& problem, const Plan& plan, void* workspace, cudaStream_t stream) {
  const RegisterTileWay way = plan.way.as<RegisterTileWay>();
  ProblemAndTotals args{problem, nullptr};
  Problem& read = args.problem;  // as the kernel reads it
  Copies copies(problem, workspace);
  if (way.transpose_a) {
    const Side a = copies.add(side_a(problem), transposed(side_a(problem), problem));
    read.a = {a.data, a.row_stride, a.k_stride, a.batch_stride, a.alignment};
  }
  if (way.transpose_b) {
    const Side b = copies.add(side_b(problem), transposed(side_b(problem), problem));
    read.b = {b.data, b.k_stride, b.row_stride, b.batch_stride, b.alignment};
  }
  const cudaError_t error = launch_copies(copies, problem, plan.begin(), stream);
  if (error != cudaSuccess) return error;
  if (way.wraps_around) return launch_wrapped(read, plan, way, workspace, copies.bytes(), stream);
  args.totals = static_cast<char*>(workspace) + copies.bytes();
  return launch_kernel(kernel_of(problem, way), plan.main_step(), stream, args);
}

const void* kernel(const Problem& problem, const Plan& plan) {
  const RegisterTileWay way = plan.way.as<RegisterTileWay>();
  if (way.wraps_around) return address_of(register_tile_wrapped_kernel(way));
  return address_of(kernel_of(problem, plan.way.as<RegisterTileWay>()));
}

}  // namespace

extern const RungLaunch RegisterTileLaunch = {&launch, &kernel};

}  // namespace tiled
