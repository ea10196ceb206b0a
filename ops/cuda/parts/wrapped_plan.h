// Products whose tiles are cut in time (parts/wrap_around.h), as the planners of their rungs see
// them.
#pragma once

#include "cuda/plan/candidate.h"
#include "cuda/plan/rung.h"

namespace tiled {

// In the workspace: each block's accumulators, and then the ticket and the flags.
struct WrappedLayout {
  int64_t accumulators_at, accumulator_bytes, words_at, words_bytes;
};
// `behind`: bytes of the workspace that are others'.
WrappedLayout wrapped_layout(const Plan& plan, DType dtype, int32_t blocks, int64_t behind);

// Of more rounds of tiles a cut saves little, and whole ones keep in step.
constexpr int64_t MOST_CUT_ROUNDS = 8;

// The most blocks, all running at once, that would share out a problem's tiles by cutting some in
// time; 0: there is nothing to cut, or K is, or these are more rounds.
int32_t wrapping_blocks(const Candidate& candidate, const Problem& problem,
                        const DeviceInfo& device, int64_t most_rounds = MAX_GRID_X);

// The step that clears the words of the hand-over (parts/wrapped.h), and then the product, by so
// many blocks.
void add_wrapped(Plan& plan, Step product, DType dtype, int32_t blocks, int64_t behind);

// What reports say of it.
void describe_wrapped(Description& description, int32_t blocks);

}  // namespace tiled
