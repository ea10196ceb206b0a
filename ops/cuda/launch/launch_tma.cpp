#include "cuda/launch/launch_tma.h"

#include "cuda/launch/launch_grid.h"
#include "cuda/parts/dynamic_shared.h"
#include "cuda/parts/hopper.h"
#include "cuda/parts/launch_early.h"
#include "cuda/parts/repack.h"
#include "cuda/parts/wgmma.h"
#include "cuda/plan/fp16x3_layout.h"
#include "cuda/plan/hopper_layout.h"
#include "cuda/rungs/9_fp16x3/fp16x3.h"
#include "cuda/rungs/kernels.h"

namespace tiled {
namespace {

CUtensorMapDataType map_type(DType dtype) {
  switch (dtype) {
    case DType::Float16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::BFloat16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    default: return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;  // rounds fp32 to tf32 as it loads
  }
}

cudaError_t encode(CUtensorMap* map, const Side& side, const Problem& problem, int block_rows,
                   int share_rows, int sharers = 1) {
  return encode_operand(map, side, entries_of(side, problem.batch), map_type(problem.dtype),
                        static_cast<int>(size_of(problem.dtype)), block_rows, share_rows, sharers);
}

}  // namespace

const void* tma_kernel(const Problem& problem, const Plan& plan) {
  const Side a = side_a(problem), b = side_b(problem);
  switch (plan.algo) {
    case Algo::TmaWgmma: return tma_wgmma_kernel(problem.dtype, is_mn_major(a), is_mn_major(b));
    case Algo::WarpSpecialized:
      return warp_specialized_kernel(problem.dtype, is_mn_major(a), is_mn_major(b));
    case Algo::Fp16x3:
      return fp16x3_kernel_of(sides_of(problem, plan.hopper.exchanged), plan.hopper);
    default: break;
  }
  const Sides sides = sides_read(problem, plan.hopper);
  return hopper_kernel(problem.dtype, plan.hopper.tile, is_mn_major(sides.p), is_mn_major(sides.q));
}

cudaError_t launch_wgmma(const Problem& problem, const Plan& plan, cudaStream_t stream) {
  const bool specialized = plan.algo == Algo::WarpSpecialized;
  WgmmaArguments args;
  args.problem = problem;
  cudaError_t error =
      encode(&args.a_map, side_a(problem), problem, plan.block_m, specialized ? 64 : plan.block_m);
  if (error != cudaSuccess) return error;
  error = encode(&args.b_map, side_b(problem), problem, plan.block_n, plan.block_n);
  if (error != cudaSuccess) return error;
  const void* kernel = tma_kernel(problem, plan);
  const int shared = static_cast<int>(plan.shared_bytes);
  error = allow_shared(kernel, shared);
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
  Copy copies[2];
  int count = 0;
  const auto repack = [&](Side& side, int64_t bytes) {
    copies[count++] = {side, repacked(side, problem, free)};
    side = copies[count - 1].to;
    free += bytes;
  };
  if (plan.repack_p) repack(p, l.repacked_p);
  if (plan.repack_q) repack(q, l.repacked_q);
  cudaError_t error = launch_copies(copies, count, problem, stream);
  if (error != cudaSuccess) return error;

  HopperArguments args =
      grid_arguments(problem, plan, l.sides, tile.block_p, tile.block_q, l.segments);
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
    args.epilogue = plan.exchanged ? transposed(problem.epilogue) : problem.epilogue;
    args.finishes = !problem.epilogue.is_identity();
  }
  // Blocks along Q share P, and the other way round.
  error = encode(&args.p_map, p, problem, tile.block_p, tile.group_p, plan.cluster_q);
  if (error != cudaSuccess) return error;
  error = encode(&args.q_map, q, problem, tile.block_q, tile.group_q, plan.cluster_p);
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
  error = launch_early(kernel, dim3(plan.blocks), tile.threads, tile.shared_bytes,
                       plan.cluster_p * plan.cluster_q, stream, &args);
  if (error != cudaSuccess || !plan.share_segments) return error;
  return launch_sum_segments(problem, reinterpret_cast<const float*>(free), l.segments,
                             l.sums_along_p != plan.exchanged, l.sums_pitch, l.sums_entry, stream);
}

}  // namespace tiled
