// The launch of fp16x3's products on compute capability 9.0: those by wgmma, and of few rows.
#include "cuda/engine/fp16x3/call.h"
#include "cuda/parts/launch/cluster_grid.h"

namespace tiled {
namespace {

Kernel<Fp16x3FewRowsArguments> few_rows_kernel(const Sides& sides, const Fp16x3Plan& way) {
  return fp16x3_few_rows_kernel(!way.swap_ab, is_mn_major(sides.p), way.cluster_p > 1);
}

Kernel<Fp16x3Arguments> cluster_kernel(const Problem& problem, const Sides& sides,
                                       const Fp16x3Plan& way) {
  if (way.kernel == Fp16x3Kernel::Direct)
    return fp16x3_direct_kernel(way.tile, is_mn_major(sides.p), way.swap_ab);
  const bool p_mn_major = is_mn_major(planes_of_p(sides.p, way));
  const bool q_mn_major = is_mn_major(planes_of_q(sides.q, way));
  return is_grouped(problem) ? fp16x3_groups_kernel(way.tile, p_mn_major, q_mn_major)
                             : fp16x3_kernel(way.tile, p_mn_major, q_mn_major, way.stream_k);
}

cudaError_t launch_few_rows(const Call& call, const Fp16x3Plan& way, const Step& step) {
  const Problem& problem = call.problem;
  const Sides sides = sides_of(problem, way.swap_ab);
  const Side &w = sides.p, &x = sides.q;
  Fp16x3FewRowsArguments args{};
  args.w = static_cast<const float*>(w.data);
  args.w_rows = w.rows, args.k = problem.k, args.batch = problem.batch;
  args.w_row = w.row_stride, args.w_k = w.k_stride, args.w_batch = w.batch_stride;
  args.beside = is_mn_major(w);
  args.vectors = (args.beside || w.k_stride == 1) && w.alignment == 16;
  args.w_is_a = !way.swap_ab;
  args.x = call.at<void>(Area::Q);
  args.x_rows = x.rows;
  args.x_batch = entries_of(x, problem.batch) > 1 ? few_rows_bytes(x.rows, problem.k) / 16 : 0;
  args.cluster = way.cluster_p, args.slots = way.block.slots;
  args.x_scales = call.at<RowScale>(Area::ScalesQ);
  args.x_scales_batch = scales_batch(x, problem.batch);
  args.c = static_cast<float*>(problem.c.data);
  args.c_m = problem.c.row_stride, args.c_n = problem.c.col_stride;
  args.c_batch = problem.c.batch_stride;
  args.epilogue = problem.epilogue, args.finishes = !problem.epilogue.is_identity();
  args.guard = guard_list(call, way), args.tolerance = tolerance_of(call, way);
  return launch_early(few_rows_kernel(sides, way), step, call.stream, args);
}

// The tensor maps of P and Q: their planes, or P as it lies.
cudaError_t map_operands(const Call& call, const Fp16x3Plan& way, const Sides& sides,
                         HopperArguments& grid) {
  const Fp16x3TileInfo tile = tile_of(way);
  constexpr CUtensorMapDataType HALF = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  const int64_t p_entries = entries_of(sides.p, call.problem.batch);
  const int64_t q_entries = entries_of(sides.q, call.problem.batch);
  Side q = planes_of_q(sides.q, way);
  q.data = call.at<void>(Area::Q);
  cudaError_t error;
  if (way.kernel == Fp16x3Kernel::Direct) {
    const int share = 64 / way.cluster_q;  // of Fp32Rows, rows or k
    error = encode_side(&grid.p_map, sides.p, p_entries, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4,
                        {32, share}, {16, share});
    if (!is_mn_major(sides.p)) q.k = blocks_over(q.k, 16) * 16;  // its last 16 are whole
  } else {
    Side p = planes_of_p(sides.p, way);
    p.data = call.at<void>(Area::P);
    error = encode_operand(&grid.p_map, p, 2 * p_entries, HALF, 2, tile.block_p, 64, way.cluster_q);
  }
  if (error != cudaSuccess) return error;
  return encode_operand(&grid.q_map, q, 2 * q_entries, HALF, 2, tile.block_q, tile.block_q,
                        way.cluster_p);
}

cudaError_t launch_clusters(const Call& call, const Fp16x3Plan& way, const Step& step) {
  const Sides sides = sides_of(call.problem, way.swap_ab);
  Fp16x3Arguments args = product_arguments(call, way);
  const cudaError_t error = map_operands(call, way, sides, args.grid);
  if (error != cudaSuccess) return error;
  return launch_early(cluster_kernel(call.problem, sides, way), step, call.stream, args);
}

}  // namespace

cudaError_t launch_hopper_product(const Call& call, const Step& step) {
  const Fp16x3Plan way = call.plan.way.as<Fp16x3Plan>();
  return way.kernel == Fp16x3Kernel::FewRows ? launch_few_rows(call, way, step)
                                             : launch_clusters(call, way, step);
}

const void* hopper_kernel(const Problem& problem, const Fp16x3Plan& way) {
  const Sides sides = sides_of(problem, way.swap_ab);
  return way.kernel == Fp16x3Kernel::FewRows ? address_of(few_rows_kernel(sides, way))
                                             : address_of(cluster_kernel(problem, sides, way));
}

}  // namespace tiled
