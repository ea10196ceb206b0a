// The kernels of rung register_tile.
#pragma once

#include "cuda/parts/hand_over.h"
#include "cuda/parts/launch.h"
#include "cuda/parts/totals.h"
#include "cuda/parts/wrap_around.h"
#include "cuda/rungs/3_register_tile/way.h"

namespace tiled {

Kernel<ProblemAndTotals> register_tile_kernel(const Problem& problem, const RegisterTileWay& way);
Kernel<ProblemAndTotals> register_tile_async_kernel(
    const RegisterTileWay& way);  // of ways that are async

// Of ways that cut tiles in time, by `wrap`; a block is a group of the hand-over.
struct WrappedArguments {
  Problem problem;
  WrapAround wrap;
  HandOver hand_over;
};
Kernel<WrappedArguments> register_tile_wrapped_kernel(const RegisterTileWay& way);
Kernel<WrappedArguments> clear_words_kernel();

}  // namespace tiled
