// In which order a product sums K: 'chain' (core/segments.h), 'tree' (core/sum_tree.h, leaves of
// 1024), or 'tree:LEAF'. Asked per call, else by the library's setting, which is 'chain' at start.
#pragma once

#include <string_view>

#include "core/sum_tree.h"
#include "tiled_mm.h"

namespace tiled {

// The tree's leaf that a call asks for, 0 for a chain; refuses what is no order, and a tree of a
// lesson.
int64_t leaf_of(const MmOptions& options);

// The name of that order, which lives forever. Autograd saves it for the backward.
std::string_view resolve_sum_order(const MmOptions& options);

}  // namespace tiled
