// The launch of rung hopper.
#include "cuda/engine/hopper/kernels.h"
#include "cuda/engine/hopper/plan.h"
#include "cuda/parts/launch/cluster_grid.h"
#include "cuda/parts/launch/launch_rung.h"
#include "cuda/parts/launch/map_operand.h"
#include "cuda/plan/signed_bytes.h"
#include "cuda/plan/sums.h"
#include "cuda/plan/tree_pass.h"

namespace tiled {
namespace {

HopperKernel wanted_of(const Problem& problem, const HopperPlan& plan) {
  const Sides sides = sides_of(problem, plan.swap_ab);
  return {problem.dtype,        reads_signs(problem),    is_mn_major(sides.p),
          is_mn_major(sides.q), finishes(problem, plan), is_grouped(problem)};
}

Kernel<HopperArguments> kernel_of(const Problem& problem, const HopperPlan& plan) {
  const HopperKernel wanted = wanted_of(problem, plan);
  return with_tile(HopperTiles(), plan.tile,
                   [&](auto tile) { return hopper_kernel<decltype(tile)>(wanted); });
}

Kernel<TreeArguments> tree_kernel_of(const Problem& problem, const HopperPlan& plan) {
  const HopperKernel wanted = wanted_of(problem, plan);
  return with_tile(HopperTiles(), plan.tile,
                   [&](auto tile) { return tree_kernel<decltype(tile)>(wanted); });
}

Kernel<ScaledArguments> scaled_kernel_of(const Problem& problem, const HopperPlan& plan) {
  const DType a = problem.dtype, b = a == DType::Int8 ? a : problem.scales.b_dtype;
  const ScaledKernel wanted = {plan.swap_ab ? b : a, plan.swap_ab ? a : b,
                               problem.epilogue.out_dtype == DType::Float16,
                               finishes(problem, plan), is_grouped(problem)};
  return with_tile(HopperTiles(), plan.tile,
                   [&](auto tile) { return scaled_kernel<decltype(tile)>(wanted); });
}

ScaledArguments with_scales(const HopperArguments& args, const Problem& problem,
                            const HopperPlan& plan) {
  const Scales& s = problem.scales;
  const OperandScales &p = plan.swap_ab ? s.b : s.a, &q = plan.swap_ab ? s.a : s.b;
  ScaledArguments scaled{};
  static_cast<HopperArguments&>(scaled) = args;
  scaled.p_scales = p, scaled.q_scales = q;
  scaled.blockwise = is_blockwise(s), scaled.one_q = has_one_q(problem, plan.swap_ab);
  scaled.dense_blocks = problem.groups.shared == Shared::K && !s.spaced;
  return scaled;
}

// Maps the operands that groups share out along K where they lie, if TMA can read them there.
cudaError_t map_places(ScaledArguments& args, const Call& call, const HopperPlan& way,
                       const HopperTileInfo& tile) {
  if (way.copy_p != CopyTo::Spaced) return cudaSuccess;
  const Sides sides = sides_of(call.problem, way.swap_ab);
  args.has_p_place = is_in_place(sides.p, call.problem);
  args.has_q_place = is_in_place(sides.q, call.problem);
  cudaError_t error = cudaSuccess;
  if (args.has_p_place)
    error = map_with_edge(&args.p_place, &args.p_place_edge, sides.p, call.problem, tile.block_p,
                          tile.group_p, way.cluster_q);
  if (error == cudaSuccess && args.has_q_place)
    error = map_with_edge(&args.q_place, &args.q_place_edge, sides.q, call.problem, tile.block_q,
                          tile.block_q, way.cluster_p);
  return error;
}

// Where the sums go: to C, or in split-K to the workspace.
void set_result(HopperArguments& args, const Problem& problem, const HopperPlan& plan,
                const Sides& sides) {
  if (plan.split_k) {
    const SumsLayout l = sums_layout(problem);
    const bool along_p = l.along_m != plan.swap_ab;
    HopperOutput& sums = args.c();
    sums.data = args.totals, sums.unrounded = true, sums.by_tma = false;
    sums.p = along_p ? 1 : l.pitch, sums.q = along_p ? l.pitch : 1;
    sums.batch = l.entry, sums.segment = l.entry * problem.batch;
    return;
  }
  HopperOutput& c = args.c();
  c.data = problem.c.data;
  const DType dtype = problem.epilogue.out_dtype;
  c.unrounded = dtype == DType::Float32 || dtype == DType::Int32;
  c.by_tma = plan.stores_by_tma;
  c.p = sides.c_p, c.q = sides.c_q, c.batch = problem.c.batch_stride;
  args.epilogue = plan.swap_ab ? transposed(problem.epilogue) : problem.epilogue;
  const auto& kept = args.epilogue.pre_activation;
  args.keeps_pre_activation = kept.data != nullptr;
  if (!args.keeps_pre_activation) return;
  HopperOutput& pre_activation = args.outputs[0];
  pre_activation.data = kept.data;
  pre_activation.unrounded = c.unrounded;
  pre_activation.p = kept.row_stride, pre_activation.q = kept.col_stride,
  pre_activation.batch = kept.batch_stride;
  pre_activation.by_tma = stores_by_tma(
      problem, sides, pre_activation.p, pre_activation.q,
      alignment_of(kept.data, kept.dtype, kept.row_stride, kept.col_stride, kept.batch_stride));
}

// Groups may write to one matrix.
int64_t c_entries(const Problem& problem) {
  return is_grouped(problem) && problem.groups.shared != Shared::K ? 1 : problem.batch;
}

// TMA writes a matrix by slices of a consumer's share.
cudaError_t map_output(HopperOutput& c, const HopperArguments& args, const Problem& problem,
                       int slice_q) {
  if (!c.by_tma) return cudaSuccess;
  const bool along_p = c.q != 1;
  const DType dtype = problem.epilogue.out_dtype;
  const int width = slice_columns(slice_q, size_of(dtype));
  const MappedMatrix matrix = {c.data,
                               along_p ? args.p : args.q,
                               along_p ? args.q : args.p,
                               c_entries(problem),
                               along_p ? c.q : c.p,
                               c.batch};
  const auto type =
      dtype == DType::Float32 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : map_type(dtype);  // unrounded
  return encode_tensor_map(&c.map, type, static_cast<int>(size_of(dtype)), matrix,
                           {along_p ? slice_row(size_of(dtype)) : width, along_p ? width : 64});
}

cudaError_t launch(const Call& call, const Step& step) {
  const Problem& problem = call.read;
  const HopperPlan way = call.plan.way.as<HopperPlan>();
  const HopperTileInfo& tile = hopper_tile(way.tile);
  const Sides sides = sides_of(problem, way.swap_ab);
  HopperArguments args = grid_arguments(problem, way, sides, tile.block_p, tile.block_q,
                                        way.split_k ? chain_count(problem) : 1);
  args.totals = call.at<float>(Area::Totals);
  args.groups = problem.groups;
  args.k = static_cast<int32_t>(call.problem.k);  // where groups end, though copies are spaced
  args.groups_of_p = sides.p.is_shared, args.groups_of_q = sides.q.is_shared;
  args.c_batch = c_entries(problem) != 1;
  args.finishes = finishes(problem, way);
  set_result(args, problem, way, sides);
  // Blocks along Q share P, and the other way round.
  cudaError_t error = map_with_edge(&args.p_map, &args.p_edge, sides.p, problem, tile.block_p,
                                    tile.group_p, way.cluster_q);
  if (error == cudaSuccess)
    error = map_with_edge(&args.q_map, &args.q_edge, sides.q, problem, tile.block_q, tile.block_q,
                          way.cluster_p);
  if (error == cudaSuccess) error = map_output(args.c(), args, problem, tile.slice_q);
  if (error == cudaSuccess && args.keeps_pre_activation)
    error = map_output(args.outputs[0], args, problem, tile.slice_q);
  if (error != cudaSuccess) return error;
  if (is_scaled(problem)) {
    ScaledArguments scaled = with_scales(args, problem, way);
    error = map_places(scaled, call, way, tile);
    if (error != cudaSuccess) return error;
    return launch_early(scaled_kernel_of(problem, way), step, call.stream, scaled);
  }
  if (problem.leaf > 0)
    return launch_early(tree_kernel_of(problem, way), step, call.stream,
                        with_leaves<TreeArguments>(args, problem));
  return launch_early(kernel_of(problem, way), step, call.stream, args);
}

const void* kernel(const Call& call) {
  const HopperPlan way = call.plan.way.as<HopperPlan>();
  if (is_scaled(call.read)) return address_of(scaled_kernel_of(call.read, way));
  if (call.read.leaf > 0) return address_of(tree_kernel_of(call.read, way));
  return address_of(kernel_of(call.read, way));
}

}  // namespace

extern const RungLaunch HopperLaunch = {&launch, &kernel};

}  // namespace tiled
