// The launch of rung fp16x3: operands are split, their parts multiplied, and the guard computes
// again what the parts could not hold. On compute capability 9.0 each kernel begins in the shadow
// of the one before.
#include "cuda/engine/fp16x3/call.h"
#include "cuda/parts/launch/cluster_grid.h"
#include "cuda/plan/fp16x3.h"

namespace tiled {
namespace {

// P is A, and Q is B.
cudaError_t launch_async(const Call& call, const Fp16x3Plan& way, const Step& step) {
  const Sides sides = sides_of(call.problem, /*swap_ab=*/false);
  const Side p = planes_of_p(sides.p, way), q = planes_of_q(sides.q, way);
  Fp16x3AsyncArguments args{};
  args.product = product_arguments(call, way);
  args.p = call.at<__half>(Area::P), args.q = call.at<__half>(Area::Q);
  args.p_pitch = p.row_stride, args.q_pitch = q.row_stride;
  args.p_plane = p.batch_stride, args.q_plane = q.batch_stride;
  return launch_kernel(fp16x3_async_kernel(way.tile, is_grouped(call.problem)), step, call.stream,
                       args);
}

cudaError_t launch(const Call& call, const Step& step) {
  const Fp16x3Plan way = call.plan.way.as<Fp16x3Plan>();
  if (step.work == Work::Split) return launch_split(call, step);
  if (step.work == Work::Guard)
    return launch_early(guard_kernel(is_grouped(call.problem)), step, call.stream,
                        GuardArguments{call.problem, guard_list(call, way), way.coarse});
  return way.kernel == Fp16x3Kernel::Async ? launch_async(call, way, step)
                                           : launch_hopper_product(call, step);
}

const void* kernel(const Call& call) {
  const Fp16x3Plan way = call.plan.way.as<Fp16x3Plan>();
  return way.kernel == Fp16x3Kernel::Async
             ? address_of(fp16x3_async_kernel(way.tile, is_grouped(call.problem)))
             : hopper_kernel(call.problem, way);
}

}  // namespace

GuardList guard_list(const Call& call, const Fp16x3Plan& way) {
  GuardList list{};
  const GuardSquares squares = guard_squares(call.problem);
  list.squares_m = static_cast<uint32_t>(squares.m);
  list.squares_n = static_cast<uint32_t>(squares.n);
  if (call.problem.k < fp16x3_least_k(way.coarse)) return list;  // all are
  auto* const words = call.at<uint32_t>(Area::Guard);
  list.count = words, list.recomputed = words + RECOMPUTED_AT / 4, list.listed = words + 2;
  list.squares = call.at<uint32_t>(Area::Squares);
  list.marks = call.at<uint16_t>(Area::Marks);
  // Rows of marks are P's, but for few rows, which are Q's.
  list.rows_along_n = way.swap_ab != (way.kernel == Fp16x3Kernel::FewRows);
  return list;
}

Fp16x3Arguments product_arguments(const Call& call, const Fp16x3Plan& way) {
  const Problem& problem = call.problem;
  const Sides sides = sides_of(problem, way.swap_ab);
  const Fp16x3TileInfo tile = tile_of(way);
  Fp16x3Arguments args{};
  args.grid = grid_arguments(problem, way, sides, tile.block_p, tile.block_q, /*segments=*/1);
  HopperOutput& c = args.grid.c();
  c.data = problem.c.data, c.unrounded = true;
  c.p = sides.c_p, c.q = sides.c_q;
  c.batch = problem.c.batch_stride;
  args.grid.totals = call.at<float>(Area::Totals);
  if (way.stream_k) {
    const HopperArguments& grid = args.grid;
    args.stream_k.rule =
        StreamK::of(static_cast<uint32_t>(int64_t{grid.clusters_p} * grid.clusters_q * grid.batch),
                    way.blocks / (way.cluster_p * way.cluster_q),
                    static_cast<uint32_t>(blocks_over(problem.k, 64)), FP16X3_LEAST_STEPS);
    args.stream_k.hand_over = call.hand_over();
  }
  args.p_scales = call.at<RowScale>(Area::ScalesP);
  args.q_scales = call.at<RowScale>(Area::ScalesQ);
  args.p_scales_batch = scales_batch(sides.p, problem.batch);
  args.q_scales_batch = scales_batch(sides.q, problem.batch);
  args.grid.epilogue = way.swap_ab ? transposed(problem.epilogue) : problem.epilogue;
  args.grid.finishes = !problem.epilogue.is_identity();
  args.guard = guard_list(call, way), args.tolerance = tolerance_of(call, way);
  args.coarse = way.coarse, args.swap_ab = way.swap_ab;
  args.grid.groups = problem.groups;
  args.grid.groups_of_p = sides.p.is_shared, args.grid.groups_of_q = sides.q.is_shared;
  return args;
}

extern const RungLaunch Fp16x3Launch = {&launch, &kernel};

}  // namespace tiled
