// The step that clears words which a kernel of the plan wants to find so.
#pragma once

#include "cuda/plan/plan.h"

namespace tiled {

// A kernel, though they are few: it begins in the shadow of the one before and lets the next begin
// in its own, as a memset in the stream would not.
inline Step clear_words_step(int64_t bytes) {
  Step step{};
  step.work = Work::Clear;
  step.threads_x = 256, step.threads_y = 1;
  step.grid_x = step.grid_y = 1;
  step.workspace_bytes = bytes;
  return step;
}

}  // namespace tiled
