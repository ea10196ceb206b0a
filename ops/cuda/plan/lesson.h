// Rungs tma_wgmma and warp_specialized as the planner sees them. Both run only
// if they are asked for by name: one block for each tile, and operands that TMA can read in their
// own layout.
#pragma once

#include "cuda/plan/candidate.h"
#include "cuda/plan/kernel_name.h"
#include "cuda/plan/rung.h"
#include "cuda/plan/sums.h"
#include "cuda/plan/tma.h"

namespace tiled {

template <typename Tile>
bool supports_lesson(const Problem& problem, const DeviceInfo& device) {
  return is_of_wgmma(problem.arithmetic) && device.hopper_kernels && sizes_fit_tma(problem) &&
         tma_reads(side_a(problem), problem) && tma_reads(side_b(problem), problem) &&
         most_tiles(problem, Tile::BLOCK_M, Tile::BLOCK_N) <= MAX_GRID_X;
}

template <Algo ALGO, typename Tile>
Plan plan_lesson(const Problem& problem, const DeviceInfo& device, const Way& way) {
  const Candidate tile = {Tile::BLOCK_M,      Tile::BLOCK_N, tma_step(problem), Tile::THREADS, 1,
                          Tile::SHARED_BYTES, /*resident=*/1};
  Plan plan = plan_of(ALGO, tile, problem, way);
  if (problem.k == 0)
    add_sums(plan, problem);
  else
    plan.add(product_of(tile, plan, problem, device, /*dynamic=*/true));
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
