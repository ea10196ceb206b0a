// Products whose K is summed by a tree (core/sum_tree.h), of a backend. Each leaf is a product of
// the backend's own, whose sums go to a workspace; one pass adds them up and finishes C. A Backend
// has, beside what product.h says,
//   using Chain = ...;  a plan of a product of one order
//   static Chain plan_chain(const Problem&, const MmOptions&, const at::Tensor& a);
//   static void run_chain(const Problem&, const Chain&, const at::Tensor& a);
//   static void add(const TreePass&);
//   static bool one_product_sums(const Problem& whole, const SumTree&, const MmOptions&,
//                               const at::Tensor& a);  whether a plan of `whole`, which has the
//                                                      tree's leaf, is to sum by the tree itself
//   static c10::DataPtr workspace(int64_t bytes);
// and its plan() and run() go through TreePlan and these.
//
// The workspace holds the sums of as much of C as TREE_BYTES have room for, 256 x 256 elements of
// it at least: what a leaf computes does not depend on how much of C it is.
#pragma once

#include <algorithm>
#include <vector>

#include "core/groups.h"
#include "cuda/plan/tree_pass.h"
#include "torch/sum_order.h"

namespace tiled {

constexpr int64_t TREE_BYTES = int64_t{128} << 20;

// The plan of a product of either order. It is used up within the call that has these options.
template <typename Chain>
struct TreePlan {
  Chain chain;        // of a tree that has leaves' products: of the first
  SumTree tree = {};  // where it has those
  const MmOptions* options = nullptr;
  int32_t leaf = 0;  // Problem::leaf of a tree that one product sums
};

namespace detail {

template <typename Matrix>
void move_along(Matrix& x, DType dtype, int64_t stride, int64_t begin) {
  const int64_t bytes = begin * stride * size_of(dtype);
  move_by(x.data, bytes);
  x.alignment = std::min(x.alignment, power_of_two_divisor(bytes));
}

template <typename Pointer>
void move_along(Companion<Pointer>& x, int64_t stride, int64_t begin) {
  move_by(x.data, begin * stride * size_of(x.dtype));
}

}  // namespace detail

// The problem with a tree to sum by.
inline Problem with_leaf(Problem p, const SumTree& tree) {
  p.leaf = static_cast<int32_t>(tree.leaf);
  return p;
}

// The same product of a part of K.
inline Problem part_along_k(Problem p, int64_t begin, int64_t size) {
  p.k = size;
  detail::move_along(p.a, p.dtype, p.a.col_stride, begin);
  detail::move_along(p.b, p.dtype, p.b.row_stride, begin);
  for (OperandScales* scales : {&p.scales.a, &p.scales.b})
    if (scales->data != nullptr) scales->data += scale_offset(*scales, 0, begin / SCALE_BLOCK);
  return p;
}

// Some rows of C, or columns. They begin at a multiple of SCALE_BLOCK.
inline Problem part_of_c(Problem p, bool columns, int64_t begin, int64_t size) {
  (columns ? p.n : p.m) = size;
  Epilogue& e = p.epilogue;
  const auto stride = [&](const auto& x) { return columns ? x.col_stride : x.row_stride; };
  Operand& operand = columns ? p.b : p.a;
  OperandScales& scales = columns ? p.scales.b : p.scales.a;
  detail::move_along(operand, p.dtype, stride(operand), begin);
  detail::move_along(p.c, e.out_dtype, stride(p.c), begin);
  detail::move_along(e.input, stride(e.input), begin);
  detail::move_along(e.pre_activation, stride(e.pre_activation), begin);
  if (e.bias_along == (columns ? Along::N : Along::M))
    detail::move_by(e.bias, begin * e.bias_stride * size_of(e.bias_dtype));
  if (scales.data != nullptr) scales.data += scale_offset(scales, begin, 0);
  return p;
}

// Some entries of a batch.
inline Problem part_of_batch(Problem p, int64_t begin, int64_t size) {
  p.batch = size;
  Epilogue& e = p.epilogue;
  detail::move_along(p.a, p.dtype, p.a.batch_stride, begin);
  detail::move_along(p.b, p.dtype, p.b.batch_stride, begin);
  detail::move_along(p.c, e.out_dtype, p.c.batch_stride, begin);
  detail::move_along(e.input, e.input.batch_stride, begin);
  detail::move_along(e.pre_activation, e.pre_activation.batch_stride, begin);
  detail::move_by(e.bias, begin * e.bias_batch_stride * size_of(e.bias_dtype));
  for (OperandScales* scales : {&p.scales.a, &p.scales.b})
    if (scales->data != nullptr) scales->data += begin * scales->batch_stride;
  return p;
}

// Parts of one size whose numbers and begins are evenly apart: one product, a batch.
struct PartRun {
  size_t first, step, count;  // numbers of parts
};

inline std::vector<PartRun> runs_of(const std::vector<TreePart>& parts, bool batches) {
  std::vector<PartRun> runs;
  std::vector<bool> taken(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (taken[i]) continue;
    PartRun run = {i, 1, 1};
    for (size_t j = i + 1; batches && j < parts.size(); ++j) {
      if (run.count > 1 && j > i + run.count * run.step) break;
      if (taken[j] || parts[j].size != parts[i].size) continue;
      if (run.count == 1) run.step = j - i;
      const auto apart = static_cast<size_t>(parts[i + run.step].begin - parts[i].begin);
      if (static_cast<size_t>(parts[j].begin - parts[i].begin) != run.count * apart) break;
      ++run.count, taken[j] = true;
    }
    runs.push_back(run);
  }
  return runs;
}

// How much of C is computed at a time.
struct TreePiece {
  int64_t entries, m, n;
};

// As much as TREE_BYTES have room for. What groups share out stays whole.
inline TreePiece tree_piece(const Problem& p, size_t parts) {
  constexpr int64_t LEAST = 256;  // rows or columns
  const auto half = [](int64_t size, int64_t unit) {
    return (size + 2 * unit - 1) / (2 * unit) * unit;
  };
  const int64_t room =
      TREE_BYTES / (static_cast<int64_t>(parts) * accumulator_bytes(p.dtype));  // elements
  TreePiece piece = {is_grouped(p) ? 1 : p.batch, p.m, p.n};
  auto& [entries, m, n] = piece;
  while (saturating_product(entries, saturating_product(m, n)) > room) {
    const bool cuts_m = p.groups.shared != Shared::M && m > LEAST;
    const bool cuts_n = p.groups.shared != Shared::N && n > LEAST;
    if (entries > 1)
      entries = half(entries, 1);
    else if (cuts_m && (m >= n || !cuts_n))
      m = half(m, LEAST);
    else if (cuts_n)
      n = half(n, LEAST);
    else
      break;
  }
  return piece;
}

// A node of which C is the root: its parts' sums in a workspace, and the pass over them.
class TreeNode {
 public:
  TreeNode(const Problem& problem, const SumTree& tree)
      : problem_(problem), parts_(parts_of(tree, problem.k)) {
    Problem like = problem;
    // A group's bias is found by a row: the pass over the sums goes along rows.
    if (is_grouped(problem)) like.c.col_stride = 1;
    layout_ = sums_layout(like);
    layout_.segments = static_cast<int64_t>(parts_.size());
    entries_ = is_grouped(problem) ? 1 : problem.batch;
  }

  const std::vector<TreePart>& parts() const { return parts_; }
  int64_t bytes() const { return layout_.bytes(entries_); }  // of the workspace

  // Scales and groups have no stride from one part to the next.
  std::vector<PartRun> runs() const {
    return runs_of(parts_, problem_.batch == 1 && !is_grouped(problem_) && !is_scaled(problem_));
  }

  // The product of a run, whose C is in `sums`.
  Problem product(const PartRun& run, void* sums) const {
    const TreePart& part = parts_[run.first];
    Problem p = problem_of_sums(problem_, layout_, sums);
    if (is_scaled(p)) p.epilogue.out_dtype = DType::Float32;
    if (is_grouped(p)) p.c.batch_stride = 0;
    p = part_along_k(p, part.begin, part.size);
    detail::move_along(p.c, p.epilogue.out_dtype, part_stride(), static_cast<int64_t>(run.first));
    if (run.count == 1) return p;
    const int64_t apart = parts_[run.first + run.step].begin - part.begin;  // k
    p.batch = static_cast<int64_t>(run.count);
    p.a.batch_stride = apart * p.a.col_stride;
    p.b.batch_stride = apart * p.b.row_stride;
    p.c.batch_stride = part_stride() * static_cast<int64_t>(run.step);
    for (Operand* x : {&p.a, &p.b})
      x->alignment =
          std::min(x->alignment, power_of_two_divisor(x->batch_stride * size_of(p.dtype)));
    return p;
  }

  TreePass pass(const void* sums) const {
    return tree_pass(problem_, layout_, entries_, parts_, sums);
  }

 private:
  int64_t part_stride() const { return layout_.entry * entries_; }

  const Problem problem_;
  const std::vector<TreePart> parts_;
  SumsLayout layout_;
  int64_t entries_;
};

// The node of the first piece of C.
inline TreeNode first_node(const Problem& problem, const SumTree& tree, const TreePiece& piece) {
  const Problem rows = part_of_c(problem, false, 0, piece.m);
  const Problem part = part_of_c(rows, true, 0, piece.n);
  return {is_grouped(problem) ? part : part_of_batch(part, 0, piece.entries), tree};
}

template <typename Backend>
void run_node(const Problem& problem, const SumTree& tree, const MmOptions& options,
              const at::Tensor& a) {
  const TreeNode node(problem, tree);
  const c10::DataPtr sums = Backend::workspace(node.bytes());
  for (const PartRun& run : node.runs()) {
    const Problem part = node.product(run, sums.get());
    if (!tree.splits(part.k))
      Backend::run_chain(part, Backend::plan_chain(part, options, a), a);
    else if (is_grouped(part))
      run_node<Backend>(part, tree, options, a);
    else
      for (int64_t e = 0; e < part.batch; ++e)
        run_node<Backend>(part_of_batch(part, e, 1), tree, options, a);
  }
  Backend::add(node.pass(sums.get()));
}

template <typename Backend>
void run_tree(const Problem& p, const SumTree& tree, const MmOptions& options,
              const at::Tensor& a) {
  const auto [entries, m, n] = tree_piece(p, parts_of(tree, p.k).size());
  for (int64_t i = 0; i < p.m; i += m)
    for (int64_t j = 0; j < p.n; j += n) {
      const Problem rows = part_of_c(p, false, i, std::min(m, p.m - i));
      const Problem piece = part_of_c(rows, true, j, std::min(n, p.n - j));
      if (is_grouped(p))
        run_node<Backend>(piece, tree, options, a);
      else
        for (int64_t e = 0; e < p.batch; e += entries)
          run_node<Backend>(part_of_batch(piece, e, std::min(entries, p.batch - e)), tree, options,
                            a);
    }
}

// A Backend's plan() and run() are these.
template <typename Backend>
auto plan_of_either_order(const Problem& problem, const MmOptions& options, const at::Tensor& a) {
  using Plan = TreePlan<typename Backend::Chain>;
  const int64_t leaf = leaf_of(options);
  const SumTree tree = leaf == 0 ? SumTree() : tree_of(problem, leaf);
  if (tree.leaf == 0) return Plan{Backend::plan_chain(problem, options, a)};
  const Problem whole = with_leaf(problem, tree);
  if (Backend::one_product_sums(whole, tree, options, a))
    return Plan{Backend::plan_chain(whole, options, a), {}, &options, whole.leaf};
  // The product is refused before it begins for what a leaf is refused for; a rung that is asked
  // for may not take all of them.
  const TreePiece piece = tree_piece(problem, parts_of(tree, problem.k).size());
  const TreeNode node = first_node(problem, tree, piece);
  const std::vector<PartRun> runs = node.runs();
  const Plan plan = {Backend::plan_chain(node.product(runs[0], nullptr), options, a), tree,
                     &options};
  for (size_t i = 1; options.algo && i < runs.size(); ++i)
    Backend::plan_chain(node.product(runs[i], nullptr), options, a);
  return plan;
}

template <typename Backend>
void run_either_order(const Problem& problem, const TreePlan<typename Backend::Chain>& plan,
                      const at::Tensor& a) {
  if (plan.tree.leaf != 0) return run_tree<Backend>(problem, plan.tree, *plan.options, a);
  Problem one = problem;
  one.leaf = plan.leaf;
  Backend::run_chain(one, plan.chain, a);
}

}  // namespace tiled
