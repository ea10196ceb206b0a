// The launch of rung fp16x3: operands are split, their parts multiplied, and the guard computes
// again what the parts could not hold. On compute capability 9.0 each kernel begins in the shadow
// of the one before.
#include "cuda/parts/cluster_grid.h"
#include "cuda/parts/launch_rung.h"
#include "cuda/rungs/9_fp16x3/call.h"

namespace tiled {
namespace {

GuardArguments guard_of(const Call& call) {
  const Fp16x3Layout& l = call.layout;
  auto* words = reinterpret_cast<uint32_t*>(call.memory + l.guard_at);
  GuardArguments guard{};
  guard.problem = call.problem;
  guard.list.squares_m = static_cast<uint32_t>(l.squares_m);
  guard.list.squares_n = static_cast<uint32_t>(l.squares_n);
  guard.list.count = words;
  guard.list.recomputed = words + RECOMPUTED_AT / 4;
  guard.list.listed = words + 2;
  guard.list.squares = reinterpret_cast<uint32_t*>(call.memory + l.squares_at);
  guard.list.marks = reinterpret_cast<uint16_t*>(call.memory + l.marks_at);
  // Rows of marks are P's, but for few rows, which are Q's.
  guard.list.rows_along_n = call.way.exchanged != (call.way.kernel == Fp16x3Kernel::FewRows);
  return guard;
}

// P is A, and Q is B.
cudaError_t launch_async(const Call& call) {
  const Fp16x3Layout& l = call.layout;
  Fp16x3AsyncArguments args{};
  args.product = product_arguments(call);
  args.p = reinterpret_cast<const __half*>(call.memory + l.p_planes_at);
  args.q = reinterpret_cast<const __half*>(call.memory + l.q_planes_at);
  args.p_pitch = l.p_planes.row_stride, args.q_pitch = l.q_planes.row_stride;
  args.p_plane = l.p_planes.batch_stride, args.q_plane = l.q_planes.batch_stride;
  return launch_kernel(fp16x3_async_kernel(call.way.tile), call.step, call.stream, args);
}

cudaError_t launch(const Problem& problem, const Plan& plan, void* workspace, cudaStream_t stream) {
  const Step& guard = plan.end()[-1];
  const Fp16x3Plan way = plan.way.as<Fp16x3Plan>();
  if (problem.k < fp16x3_least_k(way.coarse)) {
    GuardArguments all{};
    all.problem = problem;
    all.list.squares_m = static_cast<uint32_t>(blocks_over(problem.m, GUARD_SQUARE));
    all.list.squares_n = static_cast<uint32_t>(blocks_over(problem.n, GUARD_SQUARE));
    return launch_early(guard_kernel(), guard, stream, all);
  }
  Call call = {
      problem, way,   fp16x3_layout(problem, way), static_cast<char*>(workspace), plan.main_step(),
      {},      stream};
  call.guard = guard_of(call);
  cudaError_t error = launch_splits(split_jobs(call.layout, way, call.memory), plan.begin(),
                                    call.guard.list.count, call.layout.zero_bytes / 4, stream);
  if (error != cudaSuccess) return error;
  error = way.kernel == Fp16x3Kernel::Async ? launch_async(call) : launch_hopper_product(call);
  if (error != cudaSuccess) return error;
  return launch_early(guard_kernel(), guard, stream, call.guard);
}

const void* kernel(const Problem& problem, const Plan& plan) {
  const Fp16x3Plan way = plan.way.as<Fp16x3Plan>();
  return way.kernel == Fp16x3Kernel::Async ? address_of(fp16x3_async_kernel(way.tile))
                                           : hopper_kernel(problem, way);
}

}  // namespace

Fp16x3Arguments product_arguments(const Call& call) {
  const Fp16x3Layout& l = call.layout;
  const Fp16x3TileInfo tile = tile_of(call.way);
  Fp16x3Arguments args{};
  args.grid = grid_arguments(call.problem, call.way, l.sides, tile.block_p, tile.block_q,
                             /*segments=*/1);
  HopperOutput& c = args.grid.c();
  c.data = call.problem.c.data, c.fp32 = true;
  c.store = StorePath::Scatter;
  c.p = l.sides.c_p, c.q = l.sides.c_q;
  c.batch = call.problem.c.batch_stride;
  args.grid.totals = reinterpret_cast<float*>(call.memory + l.totals_at);
  if (call.way.wraps_around) {
    const HopperArguments& grid = args.grid;
    args.cuts.wrap = WrapAround::of(
        static_cast<uint32_t>(int64_t{grid.clusters_p} * grid.clusters_q * grid.batch),
        call.way.blocks / (call.way.cluster_p * call.way.cluster_q),
        static_cast<uint32_t>(blocks_over(call.problem.k, 64)), FP16X3_LEAST_STEPS);
    args.cuts.hand_over = hand_over_at(call.memory, l.totals_at, l.hand_over_at);
  }
  args.p_scales = call.p_scales(), args.q_scales = call.q_scales();
  args.p_scales_batch = call.p_scales_batch(), args.q_scales_batch = call.q_scales_batch();
  args.grid.epilogue =
      call.way.exchanged ? transposed(call.problem.epilogue) : call.problem.epilogue;
  args.grid.finishes = !call.problem.epilogue.is_identity();
  args.guard = call.guard.list, args.tolerance = call.tolerance();
  args.exchanged = call.way.exchanged;
  return args;
}

extern const RungLaunch Fp16x3Launch = {&launch, &kernel};

}  // namespace tiled
