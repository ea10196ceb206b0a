// Rungs tma_wgmma and warp_specialized as the planner sees them. They are lessons, which run only
// if they are asked for by name: one block for each tile, and operands that TMA can read in their
// own layout.
//
#pragma once

#include <algorithm>

#include "cuda/plan/kernel_name.h"
#include "cuda/plan/rung.h"
#include "cuda/plan/sums.h"
#include "cuda/plan/tma.h"

namespace tiled {

template <typename Tile>
bool supports_lesson(const Problem& problem, const DeviceInfo& device) {
  return is_of_wgmma(problem.arithmetic) && device.hopper_kernels && sizes_fit_tma(problem) &&
         tma_reads(side_a(problem), problem) && tma_reads(side_b(problem), problem) &&
         grid_fits(problem, Tile::BLOCK_M, Tile::BLOCK_N);
}

template <Algo ALGO, typename Tile>
Plan plan_lesson(const Problem& problem, const DeviceInfo&, const Way&) {
  Plan plan = plan_of(ALGO, Way(), problem, /*exchanged=*/false, Tile::BLOCK_M, Tile::BLOCK_N,
                      tma_step(problem));
  if (problem.k == 0) {
    add_sums(plan, problem);
    return plan;
  }
  Step step = product_step(Tile::THREADS, plan.tiles_m * plan.tiles_n, Tile::SHARED_BYTES);
  step.grid_y = static_cast<int32_t>(std::min(problem.batch, MAX_GRID_Y));
  plan.add(step);
  return plan;
}

// A lane of wgmma has pairs of columns in two rows of every 8 columns.
inline Description describe_lesson(const Problem& problem, const DeviceInfo&, const Plan& plan) {
  Description d;
  d.kernel = std::string(name_of(plan.algo)) + "<" + wgmma_type(problem) + ", " +
             major_names(side_a(problem), side_b(problem)) + ">";
  d.thread_m = 2, d.thread_n = plan.block_n / 4;
  return d;
}

template <Algo ALGO, typename Tile>
constexpr Rung LESSON = {ALGO,
                         Use::ByName,
                         &supports_lesson<Tile>,
                         [](const Problem&, const DeviceInfo&, Visit visit) { visit(Way()); },
                         &plan_lesson<ALGO, Tile>,
                         &describe_lesson};

}  // namespace tiled
