// In which order a product sums K: 'chain' (core/segments.h), 'tree' (core/sum_tree.h, leaves of
// 1024), or 'tree:LEAF'. Asked per call, else by the library's setting, which is 'chain' at start.
#pragma once

#include <string_view>

#include "core/algo.h"
#include "core/sum_tree.h"
#include "tiled_mm.h"

namespace tiled {

// The rungs of one idea each, which know chains alone.
constexpr bool is_lesson(Algo algo) {
  switch (algo) {
    case Algo::Naive:
    case Algo::SharedTile8:
    case Algo::SharedTile16:
    case Algo::SharedTile32:
    case Algo::TmaWgmma:
    case Algo::WarpSpecialized: return true;
    default: return false;
  }
}

// The tree's leaf that a call asks for, 0 for a chain; refuses what is no order, and a tree of a
// lesson.
int64_t leaf_of(const MmOptions& options);

// The name of that order, which lives forever. Autograd saves it for the backward.
std::string_view resolve_sum_order(const MmOptions& options);

}  // namespace tiled
