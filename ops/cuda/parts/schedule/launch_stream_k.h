// The launch of stream-K kernels (plan/stream_k.h).
#pragma once

#include "core/problem.h"
#include "cuda/parts/launch/launch_rung.h"
#include "cuda/plan/hand_over.h"

namespace tiled {

// A block is a cluster of the grid, and a group of the hand-over.
struct StreamKArguments {
  Problem problem;
  StreamKGrid stream_k;
};

// The product of a plan that cuts tiles for the step's blocks (plan/stream_k_plan.h), as the kernel
// reads it.
inline cudaError_t launch_stream_k(Kernel<StreamKArguments> kernel, const Problem& read,
                                   const Call& call, const Step& step) {
  const Plan& plan = call.plan;
  const auto tiles = static_cast<uint32_t>(plan.tiles_m * plan.tiles_n);
  const auto steps = static_cast<uint32_t>((read.k + plan.block_k - 1) / plan.block_k);
  StreamKArguments args{};
  args.problem = read;
  args.stream_k.rule = StreamK::of(tiles, static_cast<uint32_t>(step.grid_x), steps);
  args.stream_k.hand_over = call.hand_over();
  // Not early: beside the end of the kernel before, blocks would crowd on the multiprocessors that
  // have room, two on some and none on others, and they are made to do the same, each in its place.
  return launch_kernel(kernel, step, call.stream, args);
}

}  // namespace tiled
