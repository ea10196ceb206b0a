// What rungs say of their plans alike, for reports.
#pragma once

#include <string>
#include <vector>

#include "core/text.h"
#include "cuda/plan/rung.h"

namespace tiled {

// What reports say of plans whose segments of K are shared out, if they are.
inline void describe_sharing(Description& d, bool shares_segments) {
  if (shares_segments)
    d.lines.emplace_back("shares", "segments of K among blocks, adds their sums");
  d.json.emplace_back("shares_segments", shares_segments ? "true" : "false");
}

// Null for neither.
constexpr const char* names_of_operands(bool a, bool b) {
  return a && b ? "A and B" : a ? "A" : b ? "B" : nullptr;
}

}  // namespace tiled
