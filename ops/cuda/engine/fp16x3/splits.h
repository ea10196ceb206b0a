// The operands that are split into parts before the product, the kernels and the grids; pure, for
// planner and launch.
#pragma once

#include <algorithm>

#include "cuda/engine/fp16x3/layout.h"

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
  bool is_beside() const { return form != SplitForm::Fragments && lies_beside(from); }
};

inline SplitJob split_job(const Problem& problem, const Fp16x3Plan& plan, bool of_q) {
  const Sides sides = sides_of(problem, plan.swap_ab);
  const Side& from = of_q ? sides.q : sides.p;
  const Side to = of_q ? planes_of_q(from, plan) : planes_of_p(from, plan);
  const bool direct = plan.kernel == Fp16x3Kernel::Direct;
  SplitForm form = to.k_stride == 1 ? SplitForm::AlongK : SplitForm::AsTheyLie;
  if (plan.kernel == Fp16x3Kernel::FewRows) form = SplitForm::Fragments;
  if (direct && !of_q) form = SplitForm::Nothing;
  if (direct && of_q && !is_mn_major(sides.p)) form = SplitForm::Permuted;
  if (from.groups_of_k > 0) return {from, to, from.groups_of_k, form, /*of_groups=*/true};
  return {from, to, entries_of(from, problem.batch), form, /*of_groups=*/false};
}

// Bits of Step::key of a split, beside OF_P and OF_Q: what must be zero is cleared on its way; it
// runs beside the step before; it only measures.
constexpr int8_t CLEARS = 4, BESIDE = 8, MEASURES = 16;

constexpr int SPLIT_THREADS = 512;  // split.cu, at most
constexpr int SPLIT_VECTORS = 4;    // of four elements, in a lane's registers
constexpr int SPLIT_BESIDE_THREADS = 256;
constexpr int SPLIT_TILE_K = 64;  // that a block of split_beside.cu has in registers

constexpr bool goes_along_k(SplitForm form) {
  return form == SplitForm::AlongK || form == SplitForm::Permuted;
}

// So many blocks of split_beside.cu share a panel along k, to measure it and to write it.
struct SplitShares {
  int32_t measurers, writers;
};
inline SplitShares split_shares(const SplitJob& job) {
  constexpr int64_t MOST_MEASURERS = 16;  // whose ranges each writer reads
  constexpr int64_t BLOCKS = 1024;        // that keep a GPU busy
  const int64_t panels = std::max<int64_t>(panels_of(job.from.rows, job.batch), 1);
  const int64_t of_a_group = SPLIT_TILE_K * (job.of_groups ? job.batch : 1);
  const int64_t tiles = std::max<int64_t>(blocks_over(job.from.k, of_a_group), 1);
  const auto share = [&](int64_t most) {
    const int64_t blocks = std::clamp<int64_t>(BLOCKS / panels, 1, std::min(most, tiles));
    return static_cast<int32_t>(blocks_over(tiles, blocks_over(tiles, blocks)));
  };
  // Where only scales are wanted, hardly ever one finds anything to write.
  const int32_t measurers = share(MOST_MEASURERS);
  return {measurers, job.form == SplitForm::Nothing ? measurers : share(tiles)};
}

// Bytes of its panels, and of their rows' ranges by each block that measures.
inline int64_t panel_bytes(const SplitJob& job) {
  if (!job.is_beside()) return 0;
  return panels_of(job.from.rows, job.batch) * int64_t{sizeof(SplitPanel)};
}
inline int64_t range_bytes(const SplitJob& job) {
  if (!job.is_beside()) return 0;
  return panels_of(job.from.rows, job.batch) * SPLIT_PANEL * split_shares(job).measurers * 8;
}

inline Step split_step(const SplitJob& job) {
  Step step{};
  step.work = Work::Split;
  step.threads_y = step.grid_y = 1;
  if (job.is_beside()) {
    step.threads_x = SPLIT_BESIDE_THREADS;
    step.grid_x = panels_of(job.from.rows, job.batch) * split_shares(job).writers;
  } else {  // as many threads as take a row in one chunk
    const int64_t warps =
        std::min<int64_t>(blocks_over(job.from.k, 32 * SPLIT_VECTORS * 4), SPLIT_THREADS / 32);
    step.threads_x = static_cast<int16_t>(warps * 32);
    step.grid_x = job.from.rows;
    step.grid_y = static_cast<int32_t>(std::min(job.batch, MAX_GRID_Y));
  }
  return step;
}

// The kernel that measures the operands whose rows lie beside each other, at least one.
inline Step measure_step(const SplitJob& p, const SplitJob& q) {
  Step step{};
  step.work = Work::Split, step.key = MEASURES;
  step.threads_x = SPLIT_BESIDE_THREADS, step.threads_y = step.grid_y = 1;
  const auto add = [&](const SplitJob& job, int8_t key) {
    if (!job.is_beside()) return;
    step.key |= key;
    step.grid_x += panels_of(job.from.rows, job.batch) * split_shares(job).measurers;
  };
  add(p, OF_P), add(q, OF_Q);
  return step;
}

// Adds the splits. What is along k comes first: what is measured then is still in the L2 cache
// where it is split. A kernel runs beside the one before it unless it needs what that one finds.
inline void add_splits(Plan& plan, const Problem& problem, const Fp16x3Plan& way) {
  const SplitJob p = split_job(problem, way, /*of_q=*/false);
  const SplitJob q = split_job(problem, way, /*of_q=*/true);
  const bool takes_p = way.kernel != Fp16x3Kernel::FewRows;
  const bool beside_p = takes_p && p.is_beside(), beside_q = q.is_beside();
  Step steps[3];
  int count = 0;
  const auto add = [&](Step step, int8_t key, bool beside) {
    step.key |= key | (count == 0 ? CLEARS : beside ? BESIDE : 0);
    steps[count++] = step;
  };
  if (!beside_q) add(split_step(q), OF_Q, true);  // Q first: it is the smaller where one is
  if (takes_p && !beside_p) add(split_step(p), OF_P, true);
  if (beside_p || beside_q) add(measure_step(p, q), 0, true);
  if (beside_q) add(split_step(q), OF_Q, false);
  if (beside_p) add(split_step(p), OF_P, beside_q);
  // Parts, scales, and what is cleared, of all of them.
  steps[0].workspace_bytes = plan.at(Area::Squares);
  for (int i = 0; i < count; ++i) plan.add(steps[i]);
}

}  // namespace tiled
