#include "cuda/launch_tma.h"

#include "cuda/hopper.h"
#include "cuda/hopper_layout.h"
#include "cuda/kernels/kernels.h"
#include "cuda/launch_early.h"
#include "cuda/repack.h"
#include "cuda/tensor_map.h"
#include "cuda/wgmma.h"

namespace tiled {
namespace {

CUtensorMapDataType map_type(DType dtype) {
  switch (dtype) {
    case DType::Float16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::BFloat16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    default: return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;  // rounds fp32 to tf32 as it loads
  }
}

// One operand's map: boxes of 128 bytes of k by its rows, or of an atom of rows by k, cut into as
// many parts as blocks share it.
cudaError_t encode_operand(CUtensorMap* map, const Side& side, int64_t batch, DType dtype,
                           int block_rows, int share_rows, int sharers) {
  const int bytes = static_cast<int>(size_of(dtype)), block_k = 128 / bytes;
  const int64_t entries = entries_of(side, batch);
  if (is_mn_major(side))
    return encode_tensor_map(
        map, map_type(dtype), bytes,
        {side.data, side.rows, side.k, entries, side.k_stride, side.batch_stride},
        {operand_atom(share_rows), block_k / sharers});
  return encode_tensor_map(
      map, map_type(dtype), bytes,
      {side.data, side.k, side.rows, entries, side.row_stride, side.batch_stride},
      {block_k, block_rows / sharers});
}

}  // namespace

const void* tma_kernel(const Problem& problem, const Plan& plan) {
  const Side a = side_a(problem), b = side_b(problem);
  switch (plan.algo) {
    case Algo::TmaWgmma: return tma_wgmma_kernel(problem.dtype, is_mn_major(a), is_mn_major(b));
    case Algo::WarpSpecialized:
      return warp_specialized_kernel(problem.dtype, is_mn_major(a), is_mn_major(b));
    default: break;
  }
  const Sides sides = sides_read(problem, plan.hopper);
  return hopper_kernel(problem.dtype, plan.hopper.tile, is_mn_major(sides.p), is_mn_major(sides.q));
}

cudaError_t launch_wgmma(const Problem& problem, const Plan& plan, cudaStream_t stream) {
  const bool specialized = plan.algo == Algo::WarpSpecialized;
  WgmmaArguments args;
  args.problem = problem;
  cudaError_t error = encode_operand(&args.a_map, side_a(problem), problem.batch, problem.dtype,
                                     plan.block_m, specialized ? 64 : plan.block_m, /*sharers=*/1);
  if (error != cudaSuccess) return error;
  error = encode_operand(&args.b_map, side_b(problem), problem.batch, problem.dtype, plan.block_n,
                         plan.block_n, /*sharers=*/1);
  if (error != cudaSuccess) return error;
  const void* kernel = tma_kernel(problem, plan);
  const int shared = static_cast<int>(plan.shared_bytes);
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  if (error != cudaSuccess) return error;
  void* arguments[] = {&args};
  return cudaLaunchKernel(kernel, dim3(plan.grid_x, plan.grid_y), dim3(plan.threads_x), arguments,
                          shared, stream);
}

cudaError_t launch_hopper(const Problem& problem, const HopperPlan& plan, void* workspace,
                          cudaStream_t stream) {
  HopperLayout l = hopper_layout(problem, plan);
  Side &p = l.sides.p, &q = l.sides.q;
  const HopperTileInfo& tile = hopper_tile(plan.tile);
  char* free = static_cast<char*>(workspace);
  const auto repack = [&](Side& side, int64_t bytes) {
    const Side from = side;
    side = repacked(from, problem, free);
    free += bytes;
    return launch_repack(from, side, problem, stream);
  };
  cudaError_t error = cudaSuccess;
  if (plan.repack_p && (error = repack(p, l.repacked_p)) != cudaSuccess) return error;
  if (plan.repack_q && (error = repack(q, l.repacked_q)) != cudaSuccess) return error;

  HopperArguments args{};
  args.p = static_cast<int32_t>(p.rows), args.q = static_cast<int32_t>(q.rows);
  args.k = static_cast<int32_t>(problem.k), args.batch = static_cast<int32_t>(problem.batch);
  args.p_batch = p.batch_stride != 0, args.q_batch = q.batch_stride != 0;
  args.cluster_p = plan.cluster_p, args.cluster_q = plan.cluster_q;
  args.clusters_p =
      static_cast<int32_t>(blocks_over(p.rows, int64_t{tile.block_p} * plan.cluster_p));
  args.clusters_q =
      static_cast<int32_t>(blocks_over(q.rows, int64_t{tile.block_q} * plan.cluster_q));
  args.segments = static_cast<int32_t>(l.segments);
  args.by_tiles = Divisor::of(args.clusters_p * args.clusters_q);
  args.by_segments = Divisor::of(args.segments);
  args.by_panel = Divisor::of(plan.panel * args.clusters_q);
  args.by_height = Divisor::of(plan.panel);
  args.by_last = Divisor::of((args.clusters_p - 1) % plan.panel + 1);
  args.totals = reinterpret_cast<float*>(free);
  if (plan.share_segments) {
    args.c = free, args.c_fp32 = true, args.store = StorePath::Scatter;
    args.c_p = l.sums_along_p ? 1 : l.sums_pitch, args.c_q = l.sums_along_p ? l.sums_pitch : 1;
    args.c_batch = l.sums_entry, args.c_segment = l.sums_entry * problem.batch;
  } else {
    args.c = problem.c.data;
    args.c_fp32 = problem.epilogue.out_dtype == DType::Float32;
    args.store = plan.store;
    args.c_p = l.sides.c_p, args.c_q = l.sides.c_q, args.c_batch = problem.c.batch_stride;
  }
  // Blocks along Q share P, and the other way round.
  error = encode_operand(&args.p_map, p, problem.batch, problem.dtype, tile.block_p, tile.group_p,
                         plan.cluster_q);
  if (error != cudaSuccess) return error;
  error = encode_operand(&args.q_map, q, problem.batch, problem.dtype, tile.block_q, tile.group_q,
                         plan.cluster_p);
  if (error != cudaSuccess) return error;
  if (args.store == StorePath::Tma) {
    const bool along_p = args.c_q != 1;
    const MappedMatrix c = {args.c,        along_p ? args.p : args.q,     along_p ? args.q : args.p,
                            problem.batch, along_p ? args.c_q : args.c_p, args.c_batch};
    error = encode_tensor_map(&args.c_map, map_type(problem.dtype), 2, c,
                              {along_p ? 64 : tile.slice_q, along_p ? tile.slice_q : 64});
    if (error != cudaSuccess) return error;
  }

  const void* kernel = hopper_kernel(problem.dtype, plan.tile, is_mn_major(p), is_mn_major(q));
  error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, tile.shared_bytes);
  if (error != cudaSuccess) return error;
  error = launch_early(kernel, dim3(plan.blocks), tile.threads, tile.shared_bytes,
                       plan.cluster_p * plan.cluster_q, stream, &args);
  if (error != cudaSuccess || !plan.share_segments) return error;
  return launch_sum_segments(problem, reinterpret_cast<const float*>(free), l.segments,
                             l.sums_along_p != plan.exchanged, l.sums_pitch, l.sums_entry, stream);
}

}  // namespace tiled
