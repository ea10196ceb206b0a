// The launch of rung fp16x3: operands are split, their parts multiplied, and the guard computes
// again what the parts could not hold. Each kernel begins in the shadow of the one before.
#include "cuda/parts/cluster_grid.h"
#include "cuda/parts/launch_rung.h"
#include "cuda/rungs/9_fp16x3/fp16x3.h"

namespace tiled {
namespace {

// A call as its kernels see it.
struct Call {
  const Problem& problem;
  Fp16x3Plan way;
  Fp16x3Layout layout;
  char* memory;      // the workspace
  const Step& step;  // the product
  GuardArguments guard;
  cudaStream_t stream;

  // Rows of P or Q from one batch entry to the next, of their scales.
  int64_t p_scales_batch() const { return layout.p_entries > 1 ? layout.sides.p.rows : 0; }
  int64_t q_scales_batch() const { return layout.q_entries > 1 ? layout.sides.q.rows : 0; }
  float tolerance() const { return static_cast<float>(fp16x3_tolerance(problem.k)); }
  RowScale* p_scales() const { return reinterpret_cast<RowScale*>(memory + layout.p_scales_at); }
  RowScale* q_scales() const { return reinterpret_cast<RowScale*>(memory + layout.q_scales_at); }
};

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

Kernel<FewRowsArguments> few_rows_kernel(const Sides& sides, const Fp16x3Plan& way) {
  return fp16x3_few_rows_kernel(!way.exchanged, is_mn_major(sides.p));
}

Kernel<Fp16x3Arguments> cluster_kernel(const Sides& sides, const Fp16x3Plan& way) {
  if (way.kernel == Fp16x3Kernel::Direct)
    return fp16x3_direct_kernel(way.tile, is_mn_major(sides.p), way.exchanged);
  return fp16x3_kernel(way.tile, is_mn_major(split_planes(sides.p, nullptr)),
                       is_mn_major(split_planes(sides.q, nullptr)));
}

cudaError_t launch_few_rows(const Call& call) {
  const Fp16x3Layout& l = call.layout;
  const Problem& problem = call.problem;
  const Side &w = l.sides.p, &x = l.sides.q;
  FewRowsArguments args{};
  args.w = static_cast<const float*>(w.data);
  args.w_rows = w.rows, args.k = problem.k, args.batch = problem.batch;
  args.w_row = w.row_stride, args.w_k = w.k_stride, args.w_batch = w.batch_stride;
  args.beside = is_mn_major(w);
  args.vectors = (args.beside || w.k_stride == 1) && w.alignment == 16;
  args.w_is_a = !call.way.exchanged;
  args.x = call.memory + l.q_planes_at;
  args.x_rows = x.rows;
  args.x_batch = l.q_entries > 1 ? few_rows_bytes(x.rows, problem.k) / 16 : 0;
  args.slots = call.way.block.slots;
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
  args.p_scales = call.p_scales(), args.q_scales = call.q_scales();
  args.p_scales_batch = call.p_scales_batch(), args.q_scales_batch = call.q_scales_batch();
  args.grid.epilogue =
      call.way.exchanged ? transposed(call.problem.epilogue) : call.problem.epilogue;
  args.grid.finishes = !call.problem.epilogue.is_identity();
  args.guard = call.guard.list, args.tolerance = call.tolerance();
  args.exchanged = call.way.exchanged;
  if (const cudaError_t error = map_operands(call, args.grid); error != cudaSuccess) return error;
  return launch_early(cluster_kernel(l.sides, call.way), call.step, call.stream, args);
}

cudaError_t launch(const Problem& problem, const Plan& plan, void* workspace, cudaStream_t stream) {
  const Step& guard = plan.end()[-1];
  const Fp16x3Plan way = plan.way.as<Fp16x3Plan>();
  if (problem.k < FP16X3_LEAST_K) {
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
  error = way.kernel == Fp16x3Kernel::FewRows ? launch_few_rows(call) : launch_clusters(call);
  if (error != cudaSuccess) return error;
  return launch_early(guard_kernel(), guard, stream, call.guard);
}

const void* kernel(const Problem& problem, const Plan& plan) {
  const Fp16x3Plan way = plan.way.as<Fp16x3Plan>();
  const Sides sides = sides_of(problem, way.exchanged);
  return way.kernel == Fp16x3Kernel::FewRows ? address_of(few_rows_kernel(sides, way))
                                             : address_of(cluster_kernel(sides, way));
}

}  // namespace

extern const RungLaunch Fp16x3Launch = {&launch, &kernel};

}  // namespace tiled
