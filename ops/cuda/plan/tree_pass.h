// The pass over the sums of a tree's parts (core/sum_tree.h), which a workspace holds.
#pragma once

#include <vector>

#include "cuda/plan/sums.h"
#include "cuda/plan/swap_ab.h"

namespace tiled {

// The leaves of a product, or, of more than one pass adds up, two halves of K.
inline std::vector<TreePart> parts_of(const SumTree& tree, int64_t k) {
  const int64_t half = tree.first_half(k);
  if (leaf_count(tree, k) > MOST_PARTS) return {{0, half, 0}, {half, k - half, 1}};
  std::vector<TreePart> parts;
  for (int64_t begin = 0; begin < k; begin += parts.back().size)
    parts.push_back(leaf_at(tree, k, begin));
  return parts;
}

// `layout`: of the sums, of so many entries of a batch.
inline TreePass tree_pass(const Problem& problem, const SumsLayout& layout, int64_t entries,
                          const std::vector<TreePart>& parts, const void* sums) {
  TreePass pass;
  pass.problem = layout.along_m ? with_ab_swapped(problem) : problem;
  pass.sums = sums;
  pass.part_stride = layout.entry * entries, pass.entry_stride = layout.entry;
  pass.pitch = layout.pitch;
  pass.parts = static_cast<int32_t>(parts.size());
  for (size_t i = 0; i < parts.size(); ++i)
    pass.additions[i] = static_cast<uint8_t>(parts[i].additions);
  return pass;
}

// The leaves of a problem that kernels sum by its tree, and where they begin.
inline std::vector<TreePart> leaves_of(const Problem& problem) {
  return parts_of({problem.leaf, tree_unit(problem.arithmetic)}, problem.k);
}
inline LeafTable leaf_table(const std::vector<TreePart>& leaves) {
  LeafTable table{};
  for (const TreePart& leaf : leaves) {
    table.begins[table.count++] = static_cast<int32_t>(leaf.begin);
    table.begins[table.count] = static_cast<int32_t>(leaf.begin + leaf.size);
  }
  return table;
}

// The arguments of a kernel that sums a problem's tree, which has its leaves beside those of a
// chain.
template <typename TreeArguments, typename Arguments>
TreeArguments with_leaves(const Arguments& args, const Problem& problem) {
  TreeArguments of_tree{};
  static_cast<Arguments&>(of_tree) = args;
  const std::vector<TreePart> leaves = leaves_of(problem);
  of_tree.leaves = leaf_table(leaves);
  for (size_t i = 0; i < leaves.size(); ++i)
    of_tree.additions[i] = static_cast<uint8_t>(leaves[i].additions);
  return of_tree;
}

// The pass of a problem whose leaves are shared out among blocks.
inline TreePass tree_pass(const Problem& problem, const void* sums) {
  return tree_pass(problem, sums_layout(problem), problem.batch, leaves_of(problem), sums);
}

}  // namespace tiled
