// The device function of each rung for a problem and its plan. All of them take one argument, the
// Problem by value or a struct that begins with it; launch.cpp launches them and reads their
// attributes through these pointers.
#pragma once

#include <type_traits>

#include "core/problem.h"
#include "cuda/plan/plan.h"

namespace tiled {

// For kernels whose registers do not hold running totals: where these wait between segments.
struct ProblemAndTotals {
  Problem problem;
  void* totals;  // totals_bytes() of the workspace
};
static_assert(std::is_standard_layout_v<ProblemAndTotals>, "a pointer to it is one to the Problem");

const void* naive_kernel(const Problem& problem, const Plan& plan);
const void* shared_tile_kernel(const Problem& problem, const Plan& plan);
const void* register_tile_kernel(const Problem& problem, const Plan& plan);  // ProblemAndTotals
const void* register_tile_async_kernel(const Plan& plan);  // of async plans; ProblemAndTotals
const void* mma_tile_kernel(const Problem& problem);       // of tensor arithmetic
// ProblemAndTotals; its shared memory is given at the launch; operands whose alignment is 16 are
// read by vectors.
const void* mma_tile_fp64_kernel(const Problem& problem, const Plan& plan);

// These take WgmmaArguments (wgmma.h) and HopperArguments (hopper.h) instead. float32 means tf32.
const void* tma_wgmma_kernel(DType dtype, bool a_mn_major, bool b_mn_major);
const void* warp_specialized_kernel(DType dtype, bool a_mn_major, bool b_mn_major);
const void* hopper_kernel(DType dtype, int tile, bool p_mn_major, bool q_mn_major);

}  // namespace tiled
