// The kernels of rung few_rows are told this: of the launch, and of tests that run them on a CPU.
#pragma once

#include <algorithm>

#include "cuda/engine/few_rows/kernels.h"
#include "cuda/engine/few_rows/plan.h"

namespace tiled {

// Rows of a box of Q: all of a tile's along m or n, and along K what there is, since what is
// outside of a matrix takes TMA time.
inline int rows_of_q(const FewRowsPlan& way, const Side& q) {
  const int64_t block_q = few_rows_tile(way.tile).block_q;
  return static_cast<int>(is_mn_major(q) ? block_q : std::min(q.rows, block_q));
}

// All but the maps, of the problem as it is read. A step of the plan is `block_k` of K; `sums`: the
// place of segments' sums.
inline FewRowsArguments few_rows_arguments(const Problem& problem, const FewRowsPlan& way,
                                           int block_k, void* sums) {
  const FewRowsTileInfo& tile = few_rows_tile(way.tile);
  FewRowsArguments args{};
  const Sides sides = sides_of(problem, way.swap_ab);
  args.p = static_cast<int32_t>(sides.p.rows), args.q = static_cast<int32_t>(sides.q.rows);
  const Problem written =
      way.split_k ? problem_of_sums(problem, sums_layout(problem), sums) : problem;
  const Sides of_c = sides_of(written, way.swap_ab);
  args.c = written.c.data;
  args.c_p = of_c.c_p, args.c_q = of_c.c_q, args.c_batch = written.c.batch_stride;
  args.c_fp32 = written.epilogue.out_dtype == DType::Float32;
  args.epilogue = way.swap_ab ? transposed(written.epilogue) : written.epilogue;
  args.finishes = !written.epilogue.is_identity();
  args.batch = static_cast<int32_t>(problem.batch);
  args.p_batch = sides.p.batch_stride != 0, args.q_batch = sides.q.batch_stride != 0;
  args.strip = way.strip;
  args.strips = few_rows_strips(way, sides.p.rows);
  args.by_columns = Divisor::of(static_cast<uint32_t>(columns_of(problem, way)));
  args.by_blocks = Divisor::of(static_cast<uint32_t>(way.sharers));
  args.by_tiles = Divisor::of(static_cast<uint32_t>(tiles_of(problem, way)));
  args.tiles = static_cast<int32_t>(few_rows_units(problem, way));
  args.stages = static_cast<int32_t>(stages_of(problem, way, block_k));
  args.segment = static_cast<int32_t>(blocks_over(segment_size(problem.k), block_k));
  args.stage = tile.stage(way.strip * way.height);
  args.q_loads = tile.boxes * rows_of_q(way, sides.q) * 128;
  return args;
}

inline FewRowsTreeArguments with_leaves(const FewRowsArguments& args, const Problem& problem,
                                        const FewRowsPlan& way) {
  FewRowsTreeArguments of_tree = with_leaves<FewRowsTreeArguments>(args, problem);
  of_tree.shares_leaves = way.split_k;
  if (way.split_k) std::fill_n(of_tree.additions, MOST_LEAVES, uint8_t{0});
  return of_tree;
}

// map(to, side, strip, rows) of boxes of 128 bytes of K by so many rows, or, along m or n, by a
// strip.
template <typename Map>
cudaError_t map_operands(FewRowsArguments& args, const FewRowsPlan& way, const Sides& sides,
                         int bytes, Map map) {
  const FewRowsTileInfo& tile = few_rows_tile(way.tile);
  const int least = args.strips.least(), most = args.strips.most();
  cudaError_t error = map(&args.p_maps[0], sides.p, way.strip, least * way.strip);
  if (error == cudaSuccess && most > least && !is_mn_major(sides.p))
    error = map(&args.p_maps[1], sides.p, way.strip, most * way.strip);
  if (error != cudaSuccess) return error;
  return map(&args.q_map, sides.q, few_rows_q_strip(tile.block_q, bytes), rows_of_q(way, sides.q));
}

}  // namespace tiled
