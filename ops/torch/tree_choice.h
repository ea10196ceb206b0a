// Where a tree is summed: by the kernel of the one product, whose blocks keep the sums that wait,
// or by a pass over the sums of its leaves' products. The first moves fewer bytes, the second has
// more work to share out. Both are estimated by the rules; the bits are the same.
#pragma once

#include <algorithm>

#include "cuda/plan/current_rules.h"
#include "cuda/plan/estimate.h"
#include "torch/choose.h"
#include "torch/tree.h"

namespace tiled {

// The rung that is asked for, else any, has kernels that sum by the problem's tree.
inline bool kernels_sum_trees(const Problem& whole, const DeviceInfo& device,
                              const MmOptions& options) {
  const auto sums = [&](Algo algo) { return supports(algo, whole, device); };
  if (options.algo) {
    const std::optional<Algo> algo = parse_algo(*options.algo);
    return algo && sums(*algo);
  }
  const Ladder rungs = ladder();
  return std::any_of(rungs.begin(), rungs.end(), [&](const Rung* r) { return sums(r->algo); });
}

// Whether one kernel is to sum `whole`, a problem with a leaf, by its tree.
inline bool one_kernel_sums(const Problem& whole, const SumTree& tree, const DeviceInfo& full,
                            at::ScalarType dtype, const MmOptions& options) {
  const DeviceInfo device = planned_part(full);
  const bool is_empty = whole.batch == 0 || whole.m == 0 || whole.n == 0;
  if (whole.leaf == 0 || is_empty || !kernels_sum_trees(whole, device, options)) return false;
  const Rules& rules = *current_rules(device);
  const auto seconds = [&](const Problem& p) {
    return estimated_seconds(p, device, rules, plan_on(p, device, dtype, options));
  };
  const TreePiece piece = tree_piece(whole, parts_of(tree, whole.k).size());
  Problem chain = whole;
  chain.leaf = 0;
  const TreeNode node = first_node(chain, tree, piece);
  double apart = 0;
  for (const PartRun& run : node.runs()) {
    const Problem product = node.product(run, nullptr);
    if (tree.splits(product.k)) return true;  // more leaves than a pass adds up
    apart += seconds(product) + rules.chip().kernel;
  }
  apart += 2 * static_cast<double>(node.bytes()) / rules.chip().copy;  // stored, and read
  const double pieces = static_cast<double>(blocks_over(whole.batch, piece.entries)) *
                        static_cast<double>(blocks_over(whole.m, piece.m)) *
                        static_cast<double>(blocks_over(whole.n, piece.n));
  return seconds(whole) < apart * pieces;
}

}  // namespace tiled
