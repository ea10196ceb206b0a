// The arguments and the launch of rungs tma_wgmma and warp_specialized.
#pragma once

#include "cuda/parts/launch/launch_rung.h"
#include "cuda/parts/launch/map_operand.h"

namespace tiled {

struct WgmmaArguments {
  CUtensorMap a_map;  // A [batch][m][k]
  CUtensorMap b_map;  // B's transpose [batch][n][k]
  Problem problem;
};

inline cudaError_t launch_lesson(Kernel<WgmmaArguments> kernel, const Call& call,
                                 const Step& step) {
  constexpr int SHARE_M = 64;  // rows of A that a warpgroup reads
  const Problem& problem = call.problem;
  WgmmaArguments args;
  args.problem = problem;
  cudaError_t error =
      map_operand(&args.a_map, side_a(problem), problem, call.plan.block_m, SHARE_M);
  if (error != cudaSuccess) return error;
  error = map_operand(&args.b_map, side_b(problem), problem, call.plan.block_n, call.plan.block_n);
  if (error != cudaSuccess) return error;
  return launch_kernel(kernel, step, call.stream, args);
}

}  // namespace tiled
