// How register_tile reads its operands. Pure, as plan.h.
#pragma once

#include "cuda/plan.h"

namespace tiled {

// By vectors in both operands, or by single elements in both.
void choose_access(const Problem& problem, Plan& plan);

// cp.async has no vectors along k, and its address must be aligned whatever the number of elements
// that lie there.
Access async_access_of(const Side& side, int64_t batch);

// Whether elements share memory: a copy could then be larger than all the memory there is.
bool overlaps_itself(const Side& side, int64_t batch);

}  // namespace tiled
