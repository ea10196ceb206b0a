// The rungs of core/ladder.inc that have CUDA kernels. Each is a constant in its folder's plan.cpp:
// HopperRung, say.
#include <iterator>

#include "cuda/plan/rung.h"

namespace tiled {

#define CPU_RUNG(algo, name, is_lesson)
#define GPU_RUNG(algo, name, is_lesson) extern const Rung algo##Rung;
#define ASYNC_RUNG GPU_RUNG
#define HOPPER_RUNG GPU_RUNG
#include "core/ladder.inc"

Ladder ladder() {
  static constexpr const Rung* RUNGS[] = {
#define CPU_RUNG(algo, name, is_lesson)
#define GPU_RUNG(algo, name, is_lesson) &algo##Rung,
#define ASYNC_RUNG GPU_RUNG
#define HOPPER_RUNG GPU_RUNG
#include "core/ladder.inc"
  };
  return {RUNGS, static_cast<int>(std::size(RUNGS))};
}

}  // namespace tiled
