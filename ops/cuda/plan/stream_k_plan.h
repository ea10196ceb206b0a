// Products by stream-K (plan/stream_k.h), as the planners of their rungs see them.
#pragma once

#include "cuda/plan/candidate.h"
#include "cuda/plan/rung.h"

namespace tiled {

// The most blocks, all running at once, among which stream-K would share out a problem's tiles; 0
// if there is no tile to hand over, or if K has several segments.
int32_t stream_k_blocks(const Candidate& candidate, const Problem& problem,
                        const DeviceInfo& device);

// Adds the step that clears the words of the hand-over (plan/hand_over.h), and the product by so
// many blocks, each of which has accumulators in the workspace.
void add_stream_k(Plan& plan, Step product, DType dtype, int32_t blocks);

// Reports say this of it.
void describe_stream_k(Description& description, int32_t blocks);

}  // namespace tiled
