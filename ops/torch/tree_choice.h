// Where a tree is summed: by the one product, whose blocks keep the sums that wait or share out the
// leaves, or by a pass over the sums of its leaves' products, which any rung can compute. Where the
// rung of a leaf's product sums trees itself that is the faster way (docs/decisions/049); else both
// are estimated by the rules. The bits are the same.
#pragma once

#include "cuda/plan/current_rules.h"
#include "cuda/plan/estimate.h"
#include "torch/choose.h"
#include "torch/tree.h"

namespace tiled {

// The rung that is asked for, else any, has kernels that sum by the problem's tree.
inline bool kernels_sum_trees(const Problem& whole, const DeviceInfo& device,
                              const MmOptions& options) {
  if (!options.algo) return any_rung_computes(whole, device);
  const std::optional<Algo> algo = parse_algo(*options.algo);
  return algo && supports(*algo, whole, device);
}

// Whether one product is to sum `whole`, a problem with a leaf, by its tree.
inline bool one_product_sums(const Problem& whole, const SumTree& tree, const DeviceInfo& full,
                             at::ScalarType dtype, const MmOptions& options) {
  const DeviceInfo device = planned_part(full);
  const bool is_empty = whole.batch == 0 || whole.m == 0 || whole.n == 0;
  if (whole.leaf == 0 || is_empty || !kernels_sum_trees(whole, device, options)) return false;
  const Rules& rules = *current_rules(device);
  const auto plan_of = [&](const Problem& p) { return plan_on(p, device, dtype, options); };
  const TreePiece piece = tree_piece(whole, parts_of(tree, whole.k).size());
  Problem chain = whole;
  chain.leaf = 0;
  const TreeNode node = first_node(chain, tree, piece);
  double apart = 0;
  for (const PartRun& run : node.runs()) {
    const Problem product = node.product(run, nullptr);
    if (tree.splits(product.k)) return true;  // more leaves than a pass adds up
    const Plan plan = plan_of(product);
    if (supports(plan.algo, whole, device)) return true;
    apart += estimated_seconds(product, device, rules, plan) + rules.chip().kernel;
  }
  apart += 2 * static_cast<double>(node.bytes()) / rules.chip().copy;  // stored, and read
  const double pieces = static_cast<double>(blocks_over(whole.batch, piece.entries)) *
                        static_cast<double>(blocks_over(whole.m, piece.m)) *
                        static_cast<double>(blocks_over(whole.n, piece.n));
  return estimated_seconds(whole, device, rules, plan_of(whole)) < apart * pieces;
}

}  // namespace tiled
