// The launch of kernels whose tiles are cut in time (parts/wrap_around.h).
#pragma once

#include "core/problem.h"
#include "cuda/parts/launch.h"
#include "cuda/parts/wrap_around.h"

namespace tiled {

// `wrap` says which tiles are cut, and where. Each block's accumulators on their way to the next
// block, of a tile, [block][vector][thread]; and words in which blocks find their number and say
// that the accumulators are there.
struct WrappedArguments {
  Problem problem;
  WrapAround wrap;
  void* accumulators;
  uint32_t* ticket;
  uint32_t* flags;  // [blocks]
};

// The product of `plan`, which cuts tiles for so many blocks (plan/wrapped.h), as the kernel reads
// it. The words are cleared before it, in the stream, at every call and replay. `behind`: bytes of
// the workspace that are others'.
cudaError_t launch_wrapped(Kernel<WrappedArguments> kernel, const Problem& read, const Plan& plan,
                           int32_t blocks, void* workspace, int64_t behind, cudaStream_t stream);

Kernel<WrappedArguments> clear_words_kernel();

}  // namespace tiled
