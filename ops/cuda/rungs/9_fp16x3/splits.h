// What is split into parts before the product, by which kernels and grids; pure, for planner and
// launch.
#pragma once

#include <algorithm>

#include "cuda/rungs/9_fp16x3/layout.h"

namespace tiled {

// How hi and lo lie: as the operand does; along k; along k in the order in which
// direct.cu has k; as lanes of few_rows.cu load them. Or only the scales are wanted.
enum class SplitForm : int8_t { AsTheyLie, AlongK, Permuted, Fragments, Nothing };

// One operand and its parts: split_planes(from) (layout.h), or fragments.
struct SplitJob {
  Side from, to;
  int64_t batch;  // entries that differ, or groups that share out K
  SplitForm form;
  bool of_groups;  // that share out K

  // Whether split_beside.cu takes it; fragments are along k, however rows lie.
  bool is_beside() const { return form != SplitForm::Fragments && lies_beside(from) && !of_groups; }
};

inline SplitJob split_job(const Problem& problem, const Fp16x3Plan& plan, bool of_q) {
  const Sides sides = sides_of(problem, plan.exchanged);
  const Side& from = of_q ? sides.q : sides.p;
  const Side to = of_q ? planes_of_q(from, plan) : planes_of_p(from, plan);
  const bool direct = plan.kernel == Fp16x3Kernel::Direct;
  SplitForm form = to.k_stride == 1 ? SplitForm::AlongK : SplitForm::AsTheyLie;
  if (plan.kernel == Fp16x3Kernel::FewRows) form = SplitForm::Fragments;
  if (direct && !of_q) form = SplitForm::Nothing;
  if (direct && of_q && !is_mn_major(sides.p)) form = SplitForm::Permuted;
  if (plan.groups_of_k > 0) return {from, to, plan.groups_of_k, form, /*of_groups=*/true};
  return {from, to, entries_of(from, problem.batch), form, /*of_groups=*/false};
}

// Bits of Step::key of a split, beside OF_P and OF_Q: what must be zero is cleared on its way; it
// runs beside the step before, the other operand's.
constexpr int8_t CLEARS = 4, BESIDE = 8;

constexpr int SPLIT_THREADS = 512;  // split.cu, at most
constexpr int SPLIT_VECTORS = 4;    // of four elements, in a lane's registers
constexpr int SPLIT_BESIDE_THREADS = 256;
constexpr int SPLIT_TILE_K = 64;           // that a block of split_beside.cu has in registers
constexpr int SPLIT_GROUPS_THREADS = 128;  // of rows, where groups share out K
constexpr int SPLIT_FINISHERS = 8;         // blocks of a panel there, where only scales are wanted

constexpr bool goes_along_k(SplitForm form) {
  return form == SplitForm::AlongK || form == SplitForm::Permuted;
}

// The blocks of split_beside.cu that share a panel along k, and the tiles of each.
struct SplitTeam {
  int32_t blocks, own_tiles;
};
inline SplitTeam split_team(const SplitJob& job) {
  constexpr int TEAM = 32;  // blocks at most
  // Up to so many tiles each has a block of its own; beyond, two better share the wait for the
  // team.
  constexpr int64_t ONE_EACH = 264;
  const int64_t panels = panels_of(job.from.rows, job.batch);
  const int64_t tiles = blocks_over(job.from.k, SPLIT_TILE_K);  // of a panel
  const bool one_each = goes_along_k(job.form) || panels * tiles <= ONE_EACH;
  const int64_t own = std::max<int64_t>(blocks_over(tiles, TEAM), one_each ? 1 : 2);
  return {static_cast<int32_t>(blocks_over(tiles, own)), static_cast<int32_t>(own)};
}

inline Step split_step(const SplitJob& job) {
  Step step{};
  step.work = Work::Split;
  step.threads_y = step.grid_y = 1;
  if (job.is_beside()) {
    const int64_t blocks =
        split_team(job).blocks + (job.form == SplitForm::Nothing ? SPLIT_FINISHERS : 0);
    step.threads_x = SPLIT_BESIDE_THREADS;
    step.grid_x = panels_of(job.from.rows, job.batch) * blocks;
  } else if (job.of_groups) {
    step.threads_x = SPLIT_GROUPS_THREADS;
    step.grid_x = blocks_over(job.from.rows, int64_t{SPLIT_GROUPS_THREADS});
    step.grid_y = static_cast<int32_t>(std::min(job.batch, MAX_GRID_Y));
  } else {  // as many threads as take a row in one chunk
    const int64_t warps =
        std::min<int64_t>(blocks_over(job.from.k, 32 * SPLIT_VECTORS * 4), SPLIT_THREADS / 32);
    step.threads_x = static_cast<int16_t>(warps * 32);
    step.grid_x = job.from.rows;
    step.grid_y = static_cast<int32_t>(std::min(job.batch, MAX_GRID_Y));
  }
  return step;
}

// The kernel that only clears so many bytes.
inline Step clear_step(int64_t bytes) {
  Step step{};
  step.work = Work::Split, step.key = CLEARS;
  step.threads_x = SPLIT_BESIDE_THREADS, step.threads_y = step.grid_y = 1;
  step.grid_x = std::min<int64_t>(blocks_over(bytes / 4, SPLIT_BESIDE_THREADS), 256);
  return step;
}

// Adds the splits.
inline void add_splits(Plan& plan, const Problem& problem, const Fp16x3Plan& way) {
  const SplitJob p = split_job(problem, way, /*of_q=*/false);
  const SplitJob q = split_job(problem, way, /*of_q=*/true);
  const bool few_rows = way.kernel == Fp16x3Kernel::FewRows;
  // The second runs beside the first. So the small one goes first, or the one whose blocks wait for
  // each other meanwhile.
  const bool q_first = few_rows || way.kernel == Fp16x3Kernel::Direct ||
                       (!lies_beside(p.from) && lies_beside(q.from));
  // Blocks of rows beside each other wait for each other, and so need a kernel before theirs that
  // clears. Else the first clears on its way.
  const bool clears_first = !few_rows && (p.is_beside() || q.is_beside());
  Step steps[] = {clear_step(plan.at(Area::Squares) - plan.at(Area::Guard)),
                  split_step(q_first ? q : p), split_step(q_first ? p : q)};
  steps[1].key = q_first ? OF_Q : OF_P;
  if (!clears_first) steps[1].key |= CLEARS;
  steps[2].key = (q_first ? OF_P : OF_Q) | BESIDE;
  // Parts, scales, and what is cleared, of all of them.
  steps[clears_first ? 0 : 1].workspace_bytes = plan.at(Area::Squares);
  for (int i = clears_first ? 0 : 1; i < (few_rows ? 2 : 3); ++i) plan.add(steps[i]);
}

}  // namespace tiled
