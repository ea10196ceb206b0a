// The launch of rung hopper: copies before it, and the sums of segments after.
#include "cuda/parts/cluster_grid.h"
#include "cuda/parts/launch_rung.h"
#include "cuda/parts/map_operand.h"
#include "cuda/parts/repack.h"
#include "cuda/rungs/7_hopper/kernels.h"
#include "cuda/rungs/7_hopper/layout.h"

namespace tiled {
namespace {

Kernel<HopperArguments> kernel_of(const Problem& problem, const HopperPlan& plan) {
  const Sides sides = sides_read(problem, plan);
  return hopper_kernel(problem.dtype, plan.tile, is_mn_major(sides.p), is_mn_major(sides.q));
}

// Where the sums go: to C, or, of segments that are shared out, to the workspace.
void set_result(HopperArguments& args, const Problem& problem, const HopperPlan& plan,
                const HopperLayout& l) {
  if (plan.share_segments) {
    const bool along_p = l.sums.along_m != plan.exchanged;
    args.c = args.totals, args.c_fp32 = true, args.store = StorePath::Scatter;
    args.c_p = along_p ? 1 : l.sums.pitch, args.c_q = along_p ? l.sums.pitch : 1;
    args.c_batch = l.sums.entry, args.c_segment = l.sums.entry * problem.batch;
  } else {
    args.c = problem.c.data;
    args.c_fp32 = problem.epilogue.out_dtype == DType::Float32;
    args.store = plan.store;
    args.c_p = l.sides.c_p, args.c_q = l.sides.c_q, args.c_batch = problem.c.batch_stride;
    args.epilogue = plan.exchanged ? transposed(problem.epilogue) : problem.epilogue;
    args.finishes = !problem.epilogue.is_identity();
  }
}

cudaError_t launch_product(const Problem& problem, const HopperPlan& plan, const HopperLayout& l,
                           void* workspace, const Step& step, cudaStream_t stream) {
  const HopperTileInfo& tile = hopper_tile(plan.tile);
  HopperArguments args =
      grid_arguments(problem, plan, l.sides, tile.block_p, tile.block_q, l.sums.segments);
  args.totals = reinterpret_cast<float*>(static_cast<char*>(workspace) + l.totals_at);
  set_result(args, problem, plan, l);
  // Blocks along Q share P, and the other way round.
  cudaError_t error =
      map_operand(&args.p_map, l.sides.p, problem, tile.block_p, tile.group_p, plan.cluster_q);
  if (error != cudaSuccess) return error;
  error = map_operand(&args.q_map, l.sides.q, problem, tile.block_q, tile.group_q, plan.cluster_p);
  if (error != cudaSuccess) return error;
  if (args.store == StorePath::Tma) {
    const bool along_p = args.c_q != 1;
    const MappedMatrix c = {args.c,        along_p ? args.p : args.q,     along_p ? args.q : args.p,
                            problem.batch, along_p ? args.c_q : args.c_p, args.c_batch};
    error = encode_tensor_map(&args.c_map, map_type(problem.dtype), 2, c,
                              {along_p ? 64 : tile.slice_q, along_p ? tile.slice_q : 64});
    if (error != cudaSuccess) return error;
  }
  return launch_early(kernel_of(problem, plan), step, stream, args);
}

cudaError_t launch(const Problem& problem, const Plan& plan, void* workspace, cudaStream_t stream) {
  const HopperPlan way = plan.way.as<HopperPlan>();
  const HopperLayout l = hopper_layout(problem, way, workspace);
  cudaError_t error = launch_copies(l.copies, problem, plan.begin(), stream);
  if (error != cudaSuccess) return error;
  error = launch_product(problem, way, l, workspace, plan.main_step(), stream);
  if (error != cudaSuccess || !way.share_segments) return error;
  const auto* sums = reinterpret_cast<const float*>(static_cast<char*>(workspace) + l.totals_at);
  return launch_sum_segments(problem, l.sums, sums, plan.end()[-1], stream);
}

const void* kernel(const Problem& problem, const Plan& plan) {
  return address_of(kernel_of(problem, plan.way.as<HopperPlan>()));
}

}  // namespace

extern const RungLaunch HopperLaunch = {&launch, &kernel};

}  // namespace tiled
