// What is split into parts before the product, by which kernels and grids; pure, for planner and
// launch.
#pragma once

#include <algorithm>
#include <utility>

#include "cuda/rungs/9_fp16x3/layout.h"

namespace tiled {

// How hi and lo lie: as the operand does; along k; along k in the order in which
// direct.cu has k; as lanes of few_rows.cu load them. Or only the scales are wanted.
enum class SplitForm : int8_t { AsTheyLie, AlongK, Permuted, Fragments, Nothing };

struct RowScale;  // fp16x3.h

// Planes and scales of one operand, `to` as split_planes(from) (layout.h), or fragments.
struct SplitJob {
  Side from, to;
  int64_t batch;
  SplitForm form;
  RowScale* scales;
  RowExtent* extents;  // where rows lie beside each other
  SplitPanel* panels;

  // Whether split_beside.cu takes it; fragments are along k, however rows lie.
  bool is_beside() const { return form != SplitForm::Fragments && lies_beside(from); }
};

struct SplitJobs {
  SplitJob jobs[2];
  int count;

  // Blocks of rows beside each other wait for each other, and so need a kernel before theirs that
  // clears. Else the first clears on its way.
  bool clears_first() const {
    return std::any_of(jobs, jobs + count, [](const SplitJob& job) { return job.is_beside(); });
  }
};

// In the order of their launch; `memory` is the workspace, null while it is only planned.
inline SplitJobs split_jobs(const Fp16x3Layout& l, const Fp16x3Plan& plan, char* memory) {
  const auto job = [&](const Side& from, Side to, int64_t entries, SplitForm form, int64_t to_at,
                       int64_t scales_at, int64_t extents_at, int64_t panels_at) {
    const auto at = [&](int64_t offset) { return memory == nullptr ? nullptr : memory + offset; };
    to.data = at(to_at);
    return SplitJob{from,
                    to,
                    entries,
                    form,
                    reinterpret_cast<RowScale*>(at(scales_at)),
                    reinterpret_cast<RowExtent*>(at(extents_at)),
                    reinterpret_cast<SplitPanel*>(at(panels_at))};
  };
  const auto by_lie = [](const Side& to) {
    return to.k_stride == 1 ? SplitForm::AlongK : SplitForm::AsTheyLie;
  };
  const bool direct = plan.kernel == Fp16x3Kernel::Direct;
  const bool few_rows = plan.kernel == Fp16x3Kernel::FewRows;
  const SplitJob p =
      job(l.sides.p, l.p_planes, l.p_entries, direct ? SplitForm::Nothing : by_lie(l.p_planes),
          l.p_planes_at, l.p_scales_at, l.p_extents_at, l.p_panels_at);
  const SplitForm q_form = few_rows                            ? SplitForm::Fragments
                           : direct && !is_mn_major(l.sides.p) ? SplitForm::Permuted
                                                               : by_lie(l.q_planes);
  const SplitJob q = job(l.sides.q, l.q_planes, l.q_entries, q_form, l.q_planes_at, l.q_scales_at,
                         l.q_extents_at, l.q_panels_at);
  if (few_rows) return {{q, {}}, 1};
  // The second runs beside the first. So the small one goes first, or the one whose blocks wait for
  // each other meanwhile.
  const bool q_first = direct || (!lies_beside(l.sides.p) && lies_beside(l.sides.q));
  return q_first ? SplitJobs{{q, p}, 2} : SplitJobs{{p, q}, 2};
}

constexpr int SPLIT_THREADS = 512;  // split.cu, at most
constexpr int SPLIT_VECTORS = 4;    // of four elements, in a lane's registers
constexpr int SPLIT_BESIDE_THREADS = 256;
constexpr int SPLIT_TILE_K = 64;    // that a block of split_beside.cu has in registers
constexpr int SPLIT_FINISHERS = 8;  // blocks of a panel there, where only scales are wanted

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
  } else {  // as many threads as take a row in one chunk
    const int64_t warps =
        std::min<int64_t>(blocks_over(job.from.k, 32 * SPLIT_VECTORS * 4), SPLIT_THREADS / 32);
    step.threads_x = static_cast<int32_t>(warps) * 32;
    step.grid_x = job.from.rows;
    step.grid_y = static_cast<int32_t>(std::min(job.batch, MAX_GRID_Y));
  }
  return step;
}

// The kernel that only clears so many bytes.
inline Step clear_step(int64_t bytes) {
  Step step{};
  step.work = Work::Split;
  step.threads_x = SPLIT_BESIDE_THREADS, step.threads_y = step.grid_y = 1;
  step.grid_x = std::min<int64_t>(blocks_over(bytes / 4, SPLIT_BESIDE_THREADS), 256);
  return step;
}

}  // namespace tiled
