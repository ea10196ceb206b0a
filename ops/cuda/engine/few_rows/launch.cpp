// The launch of rung few_rows.
#include "cuda/engine/few_rows/arguments.h"
#include "cuda/parts/launch/cluster_grid.h"
#include "cuda/parts/launch/launch_rung.h"
#include "cuda/parts/launch/map_operand.h"

namespace tiled {
namespace {

template <bool TREES>
FewRowsKernel<TREES> few_rows_kernel(const Problem& problem, int tile, bool p_mn_major,
                                     bool q_mn_major) {
  if (few_rows_tile(tile).by == FewRowsBy::Patches)
    return few_rows_patches<TREES>(tile, p_mn_major, q_mn_major);
  if (few_rows_tile(tile).by == FewRowsBy::Warps)
    return problem.dtype == DType::BFloat16 ? few_rows_warps_bf16<TREES>(tile, p_mn_major)
                                            : few_rows_warps_fp16<TREES>(tile, p_mn_major);
  switch (problem.dtype) {
    case DType::BFloat16: return few_rows_bf16<TREES>(tile, p_mn_major);
    case DType::Float16: return few_rows_fp16<TREES>(tile, p_mn_major);
    case DType::Float64: return few_rows_fp64<TREES>(tile, p_mn_major, q_mn_major);
    default:
      return problem.arithmetic == Arithmetic::Tf32 ? few_rows_tf32<TREES>(tile, p_mn_major)
                                                    : few_rows_lanes<TREES>(tile, p_mn_major);
  }
}

template <bool TREES>
FewRowsKernel<TREES> kernel_of(const Problem& read, const FewRowsPlan& plan) {
  const Sides sides = sides_of(read, plan.swap_ab);
  return few_rows_kernel<TREES>(read, plan.tile, is_mn_major(sides.p), is_mn_major(sides.q));
}

CUtensorMapDataType element_type_of(const Problem& problem) {
  if (problem.arithmetic != Arithmetic::Fma) return map_type(problem.dtype);
  return problem.dtype == DType::Float64 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT64
                                         : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
}

cudaError_t launch(const Call& call, const Step& step) {
  const Problem& problem = call.read;
  const FewRowsPlan way = call.plan.way.as<FewRowsPlan>();
  FewRowsArguments args =
      few_rows_arguments(problem, way, call.plan.block_k, call.at<void>(Area::Totals));
  const int bytes = static_cast<int>(size_of(problem.dtype)), box_k = 128 / bytes;
  const cudaError_t error = map_operands(
      args, way, sides_of(problem, way.swap_ab), bytes,
      [&](CUtensorMap* to, const Side& side, int strip, int rows) {
        return encode_side(to, side, entries_of(side, problem.batch), element_type_of(problem),
                           bytes, {strip, box_k}, {box_k, rows});
      });
  if (error != cudaSuccess) return error;
  if (problem.leaf > 0)
    return launch_early(kernel_of<true>(problem, way), step, call.stream,
                        with_leaves(args, problem, way));
  return launch_early(kernel_of<false>(problem, way), step, call.stream, args);
}

const void* kernel(const Call& call) {
  const FewRowsPlan way = call.plan.way.as<FewRowsPlan>();
  if (call.read.leaf > 0) return address_of(kernel_of<true>(call.read, way));
  return address_of(kernel_of<false>(call.read, way));
}

}  // namespace

extern const RungLaunch FewRowsLaunch = {&launch, &kernel};

}  // namespace tiled
