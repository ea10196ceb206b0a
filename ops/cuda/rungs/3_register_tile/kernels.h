// The kernels of rung register_tile.
#pragma once

#include "cuda/parts/launch.h"
#include "cuda/parts/totals.h"
#include "cuda/parts/wrap_around.h"
#include "cuda/rungs/3_register_tile/way.h"

namespace tiled {

Kernel<ProblemAndTotals> register_tile_kernel(const Problem& problem, const RegisterTileWay& way);
Kernel<ProblemAndTotals> register_tile_async_kernel(
    const RegisterTileWay& way);  // of ways that are async

// Of ways that cut tiles in time, by `wrap`. Each block's accumulators on their way to the next
// block, of a tile, [block][vector][thread]; and words in which blocks find their number and say
// that the accumulators are there.
struct WrappedArguments {
  Problem problem;
  WrapAround wrap;
  void* accumulators;
  uint32_t* ticket;
  uint32_t* flags;  // [blocks]
};
Kernel<WrappedArguments> register_tile_wrapped_kernel(const RegisterTileWay& way);
Kernel<WrappedArguments> clear_words_kernel();

}  // namespace tiled
