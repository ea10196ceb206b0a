// Rung fp16x3: both operands are split, their planes multiplied, and the guard computes again what
// the parts could not hold. Three to five kernels, each launched in the shadow of the one before.
#include <algorithm>
#include <utility>

#include "cuda/launch/launch_grid.h"
#include "cuda/launch/launch_tma.h"
#include "cuda/parts/launch_early.h"
#include "cuda/plan/fp16x3_layout.h"
#include "cuda/rungs/9_fp16x3/fp16x3.h"

namespace tiled {
namespace {

// Of P and Q in the workspace, with the elements from one batch entry to the next.
struct Scales {
  RowScale *p, *q;
  int64_t p_batch, q_batch;
};

// Q has few rows: it alone is split, and P goes through rungs/9_fp16x3/few_rows.cu as it lies.
cudaError_t launch_with_few_rows(const Problem& problem, const Fp16x3Layout& l,
                                 const Scales& scales, const GuardArguments& guard, char* memory,
                                 const Plan& plan, cudaStream_t stream) {
  const Side &w = l.sides.p, &x = l.sides.q;
  void* fragments = memory + l.q_planes_at;
  cudaError_t error = launch_split_fragments(x, fragments, l.q_entries, scales.q, guard.list.count,
                                             l.zero_bytes / 4, stream);
  if (error != cudaSuccess) return error;
  FewRowsArguments args{};
  args.w = static_cast<const float*>(w.data);
  args.w_rows = w.rows, args.k = problem.k, args.batch = problem.batch;
  args.w_row = w.row_stride, args.w_k = w.k_stride, args.w_batch = w.batch_stride;
  args.beside = is_mn_major(w);
  args.vectors = (args.beside || w.k_stride == 1) && w.alignment == 16;
  args.w_is_a = !plan.hopper.exchanged;
  args.x = fragments;
  args.x_rows = x.rows;
  args.x_batch = l.q_entries > 1 ? few_rows_bytes(x.rows, problem.k) / 16 : 0;
  args.slots = plan.slots;
  args.x_scales = scales.q, args.x_scales_batch = scales.q_batch;
  args.c = static_cast<float*>(problem.c.data);
  args.c_m = problem.c.row_stride, args.c_n = problem.c.col_stride;
  args.c_batch = problem.c.batch_stride;
  args.epilogue = problem.epilogue, args.finishes = !problem.epilogue.is_identity();
  args.guard = guard.list, args.tolerance = static_cast<float>(fp16x3_tolerance(problem.k));
  const dim3 grid(static_cast<unsigned>(plan.grid_x),
                  static_cast<unsigned>(std::min(problem.batch, MAX_GRID_Y)));
  error = launch_early(fp16x3_kernel_of(l.sides, plan.hopper), grid, plan.threads_x,
                       static_cast<int>(plan.shared_bytes), /*cluster=*/0, stream, &args);
  if (error != cudaSuccess) return error;
  return launch_guard(guard, plan.guard_blocks, stream);
}

}  // namespace

const void* fp16x3_kernel_of(const Sides& sides, const HopperPlan& plan) {
  const bool p_mn_major = is_mn_major(sides.p);
  if (plan.tile == FEW_ROWS_INDEX) return fp16x3_few_rows_kernel(!plan.exchanged, p_mn_major);
  if (is_direct(plan.tile)) return fp16x3_direct_kernel(plan.tile, p_mn_major, plan.exchanged);
  return fp16x3_kernel(plan.tile, is_mn_major(split_planes(sides.p, nullptr)),
                       is_mn_major(split_planes(sides.q, nullptr)));
}

cudaError_t launch_fp16x3(const Problem& problem, const Plan& whole_plan, void* workspace,
                          cudaStream_t stream) {
  const HopperPlan& plan = whole_plan.hopper;
  const Fp16x3Layout l = fp16x3_layout(problem, plan);
  GuardArguments guard{};
  guard.problem = problem;
  guard.list.squares_m = static_cast<uint32_t>(l.squares_m);
  guard.list.squares_n = static_cast<uint32_t>(l.squares_n);
  if (problem.k < FP16X3_LEAST_K) return launch_guard(guard, whole_plan.guard_blocks, stream);

  char* memory = static_cast<char*>(workspace);
  auto* words = reinterpret_cast<uint32_t*>(memory + l.guard_at);
  guard.list.count = words;
  guard.list.recomputed = words + RECOMPUTED_AT / 4;
  guard.list.listed = words + 2;
  guard.list.squares = reinterpret_cast<uint32_t*>(memory + l.squares_at);
  guard.list.marks = reinterpret_cast<uint16_t*>(memory + l.marks_at);
  // Rows of marks are P's, but for few rows, which are Q's.
  guard.list.rows_along_n = plan.exchanged != (plan.tile == FEW_ROWS_INDEX);

  const Scales scales = {reinterpret_cast<RowScale*>(memory + l.p_scales_at),
                         reinterpret_cast<RowScale*>(memory + l.q_scales_at),
                         l.p_entries > 1 ? l.sides.p.rows : 0,
                         l.q_entries > 1 ? l.sides.q.rows : 0};
  if (plan.tile == FEW_ROWS_INDEX)
    return launch_with_few_rows(problem, l, scales, guard, memory, whole_plan, stream);
  const bool direct = is_direct(plan.tile);
  Side p = direct ? l.sides.p : l.p_planes, q = l.q_planes;
  if (!direct) p.data = memory + l.p_planes_at;
  q.data = memory + l.q_planes_at;
  const bool permuted = direct && !is_mn_major(p);
  const auto extents = [&](int64_t at) { return reinterpret_cast<RowExtent*>(memory + at); };
  const auto panels = [&](int64_t at) { return reinterpret_cast<SplitPanel*>(memory + at); };
  Side p_parts = p;
  if (direct) p_parts.data = nullptr;  // the scales alone
  SplitJob jobs[] = {{l.sides.p, p_parts, l.p_entries, scales.p, extents(l.p_extents_at),
                      panels(l.p_panels_at), /*permuted=*/false},
                     {l.sides.q, q, l.q_entries, scales.q, extents(l.q_extents_at),
                      panels(l.q_panels_at), permuted}};
  // The second runs beside the first. So the small one goes first, or the one whose blocks wait for
  // each other meanwhile.
  if (direct || (!lies_beside(l.sides.p) && lies_beside(l.sides.q))) std::swap(jobs[0], jobs[1]);
  cudaError_t error = launch_splits(jobs, 2, words, l.zero_bytes / 4, stream);
  if (error != cudaSuccess) return error;
  if (permuted) q.k = blocks_over(q.k, 16) * 16;  // its last 16 are whole

  const Fp16x3TileInfo tile = fp16x3_tile(plan.tile);
  Fp16x3Arguments args{};
  args.grid = grid_arguments(problem, plan, l.sides, tile.block_p, tile.block_q, /*segments=*/1);
  args.grid.c = problem.c.data, args.grid.c_fp32 = true, args.grid.store = StorePath::Scatter;
  args.grid.c_p = l.sides.c_p, args.grid.c_q = l.sides.c_q;
  args.grid.c_batch = problem.c.batch_stride;
  args.grid.totals = reinterpret_cast<float*>(memory + l.totals_at);
  args.p_scales = scales.p, args.q_scales = scales.q;
  args.p_scales_batch = scales.p_batch, args.q_scales_batch = scales.q_batch;
  args.grid.epilogue = plan.exchanged ? transposed(problem.epilogue) : problem.epilogue;
  args.grid.finishes = !problem.epilogue.is_identity();
  args.guard = guard.list, args.tolerance = static_cast<float>(fp16x3_tolerance(problem.k));
  args.exchanged = plan.exchanged;
  constexpr CUtensorMapDataType HALF = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  const int share = 64 / plan.cluster_q;  // of Fp32Rows, rows or k
  error = direct ? encode_side(&args.grid.p_map, p, l.p_entries, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4,
                               {32, share}, {16, share})
                 : encode_operand(&args.grid.p_map, p, 2 * l.p_entries, HALF, 2, tile.block_p, 64,
                                  plan.cluster_q);
  if (error != cudaSuccess) return error;
  error = encode_operand(&args.grid.q_map, q, 2 * l.q_entries, HALF, 2, tile.block_q, tile.block_q,
                         plan.cluster_p);
  if (error != cudaSuccess) return error;
  error = launch_early(fp16x3_kernel_of(l.sides, plan), dim3(plan.blocks), tile.threads,
                       tile.shared_bytes, plan.cluster_p * plan.cluster_q, stream, &args);
  if (error != cudaSuccess) return error;
  return launch_guard(guard, whole_plan.guard_blocks, stream);
}

}  // namespace tiled
