// How operands are read where a plan has the choice. Pure, as plan.h.
#pragma once

#include "cuda/plan/plan.h"

namespace tiled {

// By vectors in both operands, or by single elements in both.
void choose_access(const Problem& problem, Plan& plan);

// What cp.async can copy by 16 bytes: its address must be aligned whatever the number of elements
// that lie there.
Access copied_access_of(const Side& side);

// The same where the tile lies along m or n: register_tile's, whose operands along k are transposed
// on their way, one element at a time.
Access async_access_of(const Side& side);

// Whether elements share memory: a copy could then be larger than all the memory there is.
bool overlaps_itself(const Side& side, int64_t batch);

}  // namespace tiled
