// The launch of fp16x3's products on compute capability 9.0: those by wgmma, and of few rows.
#include "cuda/parts/cluster_grid.h"
#include "cuda/parts/launch_rung.h"
#include "cuda/rungs/9_fp16x3/call.h"

namespace tiled {
namespace {

Kernel<Fp16x3FewRowsArguments> few_rows_kernel(const Sides& sides, const Fp16x3Plan& way) {
  return fp16x3_few_rows_kernel(!way.exchanged, is_mn_major(sides.p), way.block.cluster > 1);
}

Kernel<Fp16x3Arguments> cluster_kernel(const Sides& sides, const Fp16x3Plan& way) {
  if (way.kernel == Fp16x3Kernel::Direct)
    return fp16x3_direct_kernel(way.tile, is_mn_major(sides.p), way.exchanged);
  return fp16x3_kernel(way.tile, is_mn_major(split_planes(sides.p, nullptr)),
                       is_mn_major(split_planes(sides.q, nullptr)), way.wraps_around);
}

cudaError_t launch_few_rows(const Call& call) {
  const Fp16x3Layout& l = call.layout;
  const Problem& problem = call.problem;
  const Side &w = l.sides.p, &x = l.sides.q;
  Fp16x3FewRowsArguments args{};
  args.w = static_cast<const float*>(w.data);
  args.w_rows = w.rows, args.k = problem.k, args.batch = problem.batch;
  args.w_row = w.row_stride, args.w_k = w.k_stride, args.w_batch = w.batch_stride;
  args.beside = is_mn_major(w);
  args.vectors = (args.beside || w.k_stride == 1) && w.alignment == 16;
  args.w_is_a = !call.way.exchanged;
  args.x = call.memory + l.q_planes_at;
  args.x_rows = x.rows;
  args.x_batch = l.q_entries > 1 ? few_rows_bytes(x.rows, problem.k) / 16 : 0;
  args.cluster = call.way.block.cluster, args.slots = call.way.block.slots;
  args.x_scales = call.q_scales(), args.x_scales_batch = call.q_scales_batch();
  args.c = static_cast<float*>(problem.c.data);
  args.c_m = problem.c.row_stride, args.c_n = problem.c.col_stride;
  args.c_batch = problem.c.batch_stride;
  args.epilogue = problem.epilogue, args.finishes = !problem.epilogue.is_identity();
  args.guard = call.guard.list, args.tolerance = call.tolerance();
  return launch_early(few_rows_kernel(l.sides, call.way), call.step, call.stream, args);
}

// The tensor maps of P and Q: their planes, or P as it lies.
cudaError_t map_operands(const Call& call, HopperArguments& grid) {
  const Fp16x3Layout& l = call.layout;
  const Fp16x3Plan& way = call.way;
  const Fp16x3TileInfo tile = tile_of(way);
  constexpr CUtensorMapDataType HALF = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  Side q = l.q_planes;
  q.data = call.memory + l.q_planes_at;
  cudaError_t error;
  if (way.kernel == Fp16x3Kernel::Direct) {
    const int share = 64 / way.cluster_q;  // of Fp32Rows, rows or k
    error = encode_side(&grid.p_map, l.sides.p, l.p_entries, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4,
                        {32, share}, {16, share});
    if (!is_mn_major(l.sides.p)) q.k = blocks_over(q.k, 16) * 16;  // its last 16 are whole
  } else {
    Side p = l.p_planes;
    p.data = call.memory + l.p_planes_at;
    error =
        encode_operand(&grid.p_map, p, 2 * l.p_entries, HALF, 2, tile.block_p, 64, way.cluster_q);
  }
  if (error != cudaSuccess) return error;
  return encode_operand(&grid.q_map, q, 2 * l.q_entries, HALF, 2, tile.block_q, tile.block_q,
                        way.cluster_p);
}

cudaError_t launch_clusters(const Call& call) {
  Fp16x3Arguments args = product_arguments(call);
  if (const cudaError_t error = map_operands(call, args.grid); error != cudaSuccess) return error;
  return launch_early(cluster_kernel(call.layout.sides, call.way), call.step, call.stream, args);
}

}  // namespace

cudaError_t launch_hopper_product(const Call& call) {
  return call.way.kernel == Fp16x3Kernel::FewRows ? launch_few_rows(call) : launch_clusters(call);
}

const void* hopper_kernel(const Problem& problem, const Fp16x3Plan& way) {
  const Sides sides = sides_of(problem, way.exchanged);
  return way.kernel == Fp16x3Kernel::FewRows ? address_of(few_rows_kernel(sides, way))
                                             : address_of(cluster_kernel(sides, way));
}

}  // namespace tiled
