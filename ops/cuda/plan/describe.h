// Rungs say this of their plans alike, for reports.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "core/text.h"
#include "cuda/plan/rung.h"
#include "cuda/plan/tile_name.h"

namespace tiled {

// A rung's variants (Rung::variants): after `names` all tiles of a list, each in every manner of
// reading.
template <typename List>
std::vector<std::string> variants_of(List, std::initializer_list<const char*> manners = {""},
                                     std::vector<std::string> names = {}) {
  for (const std::string_view tile : List::NAMES)
    for (const char* const manner : manners) names.push_back(std::string(tile) + manner);
  return names;
}

// Reports say this of split-K, where a plan has it.
inline void describe_sharing(Description& d, const Problem& problem, bool split_k) {
  if (split_k)
    d.lines.emplace_back("shares", std::string(problem.leaf > 0 ? "leaves" : "segments") +
                                       " of K among blocks, adds their sums");
  d.json.emplace_back("split_k", split_k ? "true" : "false");
}

// Which operands a plan copies before its product.
struct CopiedOperands {
  bool a, b;
};
inline CopiedOperands copied_operands(const Plan& plan) {
  const bool p = plan.copy_p != CopyTo::Nothing, q = plan.copy_q != CopyTo::Nothing;
  return plan.swap_ab ? CopiedOperands{q, p} : CopiedOperands{p, q};
}

// Null for neither.
constexpr const char* names_of_operands(bool a, bool b) {
  return a && b ? "A and B" : a ? "A" : b ? "B" : nullptr;
}

}  // namespace tiled
