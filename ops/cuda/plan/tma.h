// What the rungs that read operands by TMA ask of a problem.
#pragma once

#include "cuda/plan/plan.h"
#include "cuda/plan/sums.h"

namespace tiled {

// TMA's coordinates and the kernels' counters have 31 bits; a tile may reach beyond the end.
constexpr int64_t MOST_OF_TMA = (int64_t{1} << 31) - 512;

inline bool sizes_fit_tma(const Problem& problem) {
  return problem.m <= MOST_OF_TMA && problem.n <= MOST_OF_TMA && problem.k <= MOST_OF_TMA &&
         problem.batch <= MOST_OF_TMA;
}

// The arithmetic of mma.sync and wgmma, in which their kernels agree bit for bit.
constexpr bool is_of_wgmma(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::Tensor || arithmetic == Arithmetic::Tf32;
}

// Whether wgmma can read the operand by TMA where it lies.
inline bool tma_reads(const Side& side, const Problem& problem) {
  return is_mappable(side) && !(problem.arithmetic == Arithmetic::Tf32 && is_mn_major(side));
}

inline bool grid_fits(const Problem& problem, int64_t block_m, int64_t block_n) {
  return saturating_product(blocks_over(problem.m, block_m), blocks_over(problem.n, block_n)) <=
         MAX_GRID_X;
}

// A plan with its tiles, and no step yet. A step of K is 128 bytes.
inline Plan tma_plan(Algo algo, const Problem& problem, int32_t block_m, int32_t block_n,
                     const Way& way) {
  Plan plan{};
  plan.algo = algo;
  plan.way = way;
  plan.block_m = block_m, plan.block_n = block_n;
  plan.block_k = static_cast<int32_t>(128 / size_of(problem.dtype));
  plan.tiles_m = blocks_over(problem.m, block_m), plan.tiles_n = blocks_over(problem.n, block_n);
  return plan;
}

// The kernel of the sums, with shared memory that is given to it at the launch.
inline Step product_step(int32_t threads, int64_t blocks, int64_t shared_bytes) {
  Step step{};
  step.work = Work::Product;
  step.threads_x = threads, step.threads_y = 1;
  step.grid_x = blocks, step.grid_y = 1;
  step.shared_bytes = shared_bytes;
  step.dynamic = true;
  return step;
}

// Where K is 0 there is nothing to load, and tensor maps of nothing do not exist: the kernel that
// adds up segments adds none.
inline void add_zeros(Plan& plan, const Problem& problem) {
  plan.add(sums_step(problem, sums_layout(problem, /*segments=*/0)));
}

}  // namespace tiled
