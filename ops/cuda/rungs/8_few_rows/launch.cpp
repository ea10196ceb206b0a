// The launch of rung few_rows, copies before it.
#include <algorithm>

#include "cuda/parts/cluster_grid.h"
#include "cuda/parts/launch_rung.h"
#include "cuda/parts/map_operand.h"
#include "cuda/parts/repack.h"
#include "cuda/parts/sum_segments.h"
#include "cuda/rungs/8_few_rows/kernels.h"
#include "cuda/rungs/8_few_rows/plan.h"

namespace tiled {
namespace {

Kernel<FewRowsArguments> few_rows_kernel(const Problem& problem, int tile, bool p_mn_major,
                                         bool q_mn_major) {
  if (few_rows_tile(tile).by == FewRowsBy::Patches)
    return few_rows_patches(tile, p_mn_major, q_mn_major);
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
  const FewRowsTileInfo& tile = few_rows_tile(way.tile);
  const FewRowsLayout l = few_rows_layout(problem, way, workspace);
  cudaError_t error = launch_copies(l.copies, problem, plan.begin(), stream);
  if (error != cudaSuccess) return error;

  FewRowsArguments args{};
  args.p = static_cast<int32_t>(l.sides.p.rows), args.q = static_cast<int32_t>(l.sides.q.rows);
  void* const sums = static_cast<char*>(workspace) + l.copies.bytes();
  const Problem written = way.share_segments ? problem_of_sums(problem, l.sums, sums) : problem;
  const Sides of_c = sides_of(written, way.exchanged);
  args.c = written.c.data;
  args.c_p = of_c.c_p, args.c_q = of_c.c_q, args.c_batch = written.c.batch_stride;
  args.c_fp32 = written.epilogue.out_dtype == DType::Float32;
  args.epilogue = way.exchanged ? transposed(written.epilogue) : written.epilogue;
  args.finishes = !written.epilogue.is_identity();
  args.batch = static_cast<int32_t>(problem.batch);
  args.p_batch = l.sides.p.batch_stride != 0, args.q_batch = l.sides.q.batch_stride != 0;
  args.strip = way.strip;
  args.strips = strips_of(way, l.sides.p.rows);
  args.by_columns = Divisor::of(static_cast<uint32_t>(columns_of(problem, way)));
  args.by_blocks = Divisor::of(static_cast<uint32_t>(way.sharers));
  args.by_tiles = Divisor::of(static_cast<uint32_t>(tiles_of(problem, way)));
  args.tiles = static_cast<int32_t>(units_of(problem, way));
  args.stages = static_cast<int32_t>(blocks_over(depth_of(problem, way), plan.block_k));
  args.segment = static_cast<int32_t>(segment_steps(problem.k, plan.block_k));
  args.stage = tile.stage(way.strip * way.height);
  const int bytes = static_cast<int>(size_of(problem.dtype)), box_k = 128 / bytes;
  const bool p_mn_major = is_mn_major(l.sides.p);
  const auto map = [&](CUtensorMap* to, const Side& side, int strip, int rows) {
    return encode_side(to, side, entries_of(side, problem.batch), element_type_of(problem), bytes,
                       {strip, box_k}, {box_k, rows});
  };
  const int least = args.strips.least(), most = args.strips.most();
  error = map(&args.p_maps[0], l.sides.p, way.strip, least * way.strip);
  if (error == cudaSuccess && most > least && !p_mn_major)
    error = map(&args.p_maps[1], l.sides.p, way.strip, most * way.strip);
  if (error != cudaSuccess) return error;
  // Along K its box is no taller than Q: what lies outside of a matrix takes TMA time.
  const int q_rows = is_mn_major(l.sides.q)
                         ? tile.block_q
                         : static_cast<int>(std::min<int64_t>(l.sides.q.rows, tile.block_q));
  args.q_loads = tile.boxes * q_rows * 128;
  error = map(&args.q_map, l.sides.q, few_rows_q_strip(tile.block_q, bytes), q_rows);
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
