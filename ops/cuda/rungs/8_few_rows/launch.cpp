// The launch of rung few_rows, copies before it.
#include "cuda/parts/cluster_grid.h"
#include "cuda/parts/launch_rung.h"
#include "cuda/parts/map_operand.h"
#include "cuda/parts/repack.h"
#include "cuda/parts/sum_segments.h"
#include "cuda/rungs/8_few_rows/arguments.h"

namespace tiled {
namespace {

Kernel<FewRowsArguments> few_rows_kernel(const Problem& problem, int tile, bool p_mn_major,
                                         bool q_mn_major) {
  if (few_rows_tile(tile).by == FewRowsBy::Patches)
    return few_rows_patches(tile, p_mn_major, q_mn_major);
  if (few_rows_tile(tile).by == FewRowsBy::Warps)
    return problem.dtype == DType::BFloat16 ? few_rows_warps_bf16(tile, p_mn_major)
                                            : few_rows_warps_fp16(tile, p_mn_major);
  switch (problem.dtype) {
    case DType::BFloat16: return few_rows_bf16(tile, p_mn_major);
    case DType::Float16: return few_rows_fp16(tile, p_mn_major);
    case DType::Float64: return few_rows_fp64(tile, p_mn_major, q_mn_major);
    default:
      return problem.arithmetic == Arithmetic::Tf32 ? few_rows_tf32(tile, p_mn_major)
                                                    : few_rows_lanes(tile, p_mn_major);
  }
}

Kernel<FewRowsArguments> kernel_of(const Problem& problem, const FewRowsPlan& plan) {
  const Sides sides = few_rows_layout(problem, plan, nullptr).sides;
  return few_rows_kernel(problem, plan.tile, is_mn_major(sides.p), is_mn_major(sides.q));
}

CUtensorMapDataType element_type_of(const Problem& problem) {
  if (problem.arithmetic != Arithmetic::Fma) return map_type(problem.dtype);
  return problem.dtype == DType::Float64 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT64
                                         : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
}

cudaError_t launch(const Problem& problem, const Plan& plan, void* workspace, cudaStream_t stream) {
  const FewRowsPlan way = plan.way.as<FewRowsPlan>();
  const FewRowsLayout l = few_rows_layout(problem, way, workspace);
  cudaError_t error = launch_copies(l.copies, problem, plan.begin(), stream);
  if (error != cudaSuccess) return error;

  void* const sums = static_cast<char*>(workspace) + l.copies.bytes();
  FewRowsArguments args = few_rows_arguments(problem, way, plan.block_k, l, sums);
  const int bytes = static_cast<int>(size_of(problem.dtype)), box_k = 128 / bytes;
  error = map_operands(
      args, way, l, bytes, [&](CUtensorMap* to, const Side& side, int strip, int rows) {
        return encode_side(to, side, entries_of(side, problem.batch), element_type_of(problem),
                           bytes, {strip, box_k}, {box_k, rows});
      });
  if (error != cudaSuccess) return error;
  error = launch_early(kernel_of(problem, way), plan.main_step(), stream, args);
  if (error != cudaSuccess || !way.share_segments) return error;
  return launch_sum_segments(problem, l.sums, sums, plan.end()[-1], stream);
}

const void* kernel(const Problem& problem, const Plan& plan) {
  return address_of(kernel_of(problem, plan.way.as<FewRowsPlan>()));
}

}  // namespace

extern const RungLaunch FewRowsLaunch = {&launch, &kernel};

}  // namespace tiled
