// Products whose K is summed by a tree (core/sum_tree.h), of a backend. Each leaf is a product of
// the backend's own, whose sums go to a workspace; one pass adds them up and finishes C. A Backend
// has, beside what product.h says,
//   using Chain = ...;  a plan of a product of one order
//   static Chain plan_chain(const Problem&, const MmOptions&, const at::Tensor& a);
//   static void run_chain(const Problem&, const Chain&, const at::Tensor& a);
//   static void add(const TreePass&);
//   static c10::DataPtr workspace(int64_t bytes);
// and its plan() and run() go through TreePlan and these.
//
// The workspace holds the sums of as much of C as TREE_BYTES have room for, 256 x 256 elements of
// it at least: what a leaf computes does not depend on how much of C it is.
#pragma once

#include <algorithm>
#include <vector>

#include "core/groups.h"
#include "cuda/plan/sums.h"
#include "cuda/plan/turned.h"
#include "torch/sum_order.h"

namespace tiled {

constexpr int64_t TREE_BYTES = int64_t{128} << 20;

// The plan of a product of either order. It is used up within the call that has these options.
template <typename Chain>
struct TreePlan {
  Chain chain;  // of a tree: its first leaf's
  SumTree tree = {};
  const MmOptions* options = nullptr;
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
  detail::move_along(e.before, stride(e.before), begin);
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
  detail::move_along(e.before, e.before.batch_stride, begin);
  detail::move_by(e.bias, begin * e.bias_batch_stride * size_of(e.bias_dtype));
  for (OperandScales* scales : {&p.scales.a, &p.scales.b})
    if (scales->data != nullptr) scales->data += begin * scales->batch_stride;
  return p;
}

template <typename Backend>
class Tree {
 public:
  static void run(const Problem& problem, const SumTree& tree, const MmOptions& options,
                  const at::Tensor& a) {
    Tree(tree, options, a).run_pieces(problem);
  }

 private:
  Tree(const SumTree& tree, const MmOptions& options, const at::Tensor& a)
      : tree_(tree), options_(options), a_(a) {}

  // All of C, as much at a time as there is room for. What groups share out stays whole.
  void run_pieces(const Problem& p) const {
    constexpr int64_t LEAST = 256;  // rows or columns
    const Shared shared = p.groups.shared;
    const int64_t parts = std::min(leaf_count(tree_, p.k), MOST_PARTS);
    const int64_t room = TREE_BYTES / (parts * accumulator_bytes(p.dtype));  // elements of C
    int64_t entries = is_grouped(p) ? 1 : p.batch, m = p.m, n = p.n;
    const auto halve = [](int64_t size, int64_t unit) {
      return (size + 2 * unit - 1) / (2 * unit) * unit;
    };
    while (entries > room / m / n) {
      const bool cuts_m = shared != Shared::M && m > LEAST, cuts_n = shared != Shared::N && n > LEAST;
      if (entries > 1)
        entries = halve(entries, 1);
      else if (cuts_m && (m >= n || !cuts_n))
        m = halve(m, LEAST);
      else if (cuts_n)
        n = halve(n, LEAST);
      else
        break;
    }
    for (int64_t i = 0; i < p.m; i += m)
      for (int64_t j = 0; j < p.n; j += n) {
        const Problem rows = part_of_c(p, false, i, std::min(m, p.m - i));
        const Problem piece = part_of_c(rows, true, j, std::min(n, p.n - j));
        for (int64_t e = 0; e < (is_grouped(p) ? 1 : p.batch); e += entries)
          run_node(is_grouped(p) ? piece : part_of_batch(piece, e, std::min(entries, p.batch - e)));
      }
  }

  // The leaves, or, of more than one pass adds up, two halves.
  std::vector<TreePart> parts_of(int64_t k) const {
    const int64_t half = tree_.first_half(k);
    if (leaf_count(tree_, k) > MOST_PARTS) return {{0, half, 0}, {half, k - half, 1}};
    std::vector<TreePart> parts;
    for (int64_t begin = 0; begin < k; begin += parts.back().size)
      parts.push_back(leaf_at(tree_, k, begin));
    return parts;
  }

  // A node of which C is the root: each part's sums, then the pass over them.
  void run_node(const Problem& p) const {
    const std::vector<TreePart> parts = parts_of(p.k);
    Problem of_sums = p;
    // A group's bias is found by a row: the pass over the sums goes along rows.
    if (is_grouped(p)) of_sums.c.col_stride = 1;
    SumsLayout layout = sums_layout(of_sums);
    layout.segments = static_cast<int64_t>(parts.size());
    const int64_t entries = is_grouped(p) ? 1 : p.batch;
    const c10::DataPtr place = Backend::workspace(layout.bytes(entries));
    of_sums = problem_of_sums(p, layout, place.get());
    if (is_scaled(p)) of_sums.epilogue.out_dtype = DType::Float32;
    if (is_grouped(p)) of_sums.c.batch_stride = 0;
    const int64_t part_stride = layout.entry * entries;
    for (size_t i = 0; i < parts.size();) {
      // Neighbours of one size are a batch. Scales and groups have no stride from one to the next.
      size_t end = i + 1;
      const bool may_batch = p.batch == 1 && !is_grouped(p) && !is_scaled(p);
      while (may_batch && end < parts.size() && parts[end].size == parts[i].size) ++end;
      Problem part = part_along_k(of_sums, parts[i].begin, parts[i].size);
      detail::move_along(part.c, of_sums.epilogue.out_dtype, part_stride, static_cast<int64_t>(i));
      if (end - i > 1) {
        part.batch = static_cast<int64_t>(end - i);
        part.a.batch_stride = part.k * part.a.col_stride;
        part.b.batch_stride = part.k * part.b.row_stride;
        part.c.batch_stride = part_stride;
        const auto realign = [](auto& x, DType dtype) {
          x.alignment = std::min(
              x.alignment, power_of_two_divisor(x.batch_stride * size_of(dtype)));
        };
        realign(part.a, part.dtype), realign(part.b, part.dtype);
      }
      if (tree_.splits(part.k))
        run_halves(part);
      else
        Backend::run_chain(part, Backend::plan_chain(part, options_, a_), a_);
      i = end;
    }
    add(p, layout, part_stride, parts, place.get());
  }

  // Nodes that are parts themselves, one after the other.
  void run_halves(const Problem& p) const {
    if (is_grouped(p)) return run_node(p);
    for (int64_t e = 0; e < p.batch; ++e) run_node(part_of_batch(p, e, 1));
  }

  static void add(const Problem& p, const SumsLayout& layout, int64_t part_stride,
                  const std::vector<TreePart>& parts, const void* sums) {
    TreePass pass;
    pass.problem = layout.along_m ? turned(p) : p;
    pass.sums = sums;
    pass.part_stride = part_stride, pass.entry_stride = layout.entry, pass.pitch = layout.pitch;
    pass.parts = static_cast<int32_t>(parts.size());
    for (size_t i = 0; i < parts.size(); ++i)
      pass.additions[i] = static_cast<uint8_t>(parts[i].additions);
    Backend::add(pass);
  }

  const SumTree tree_;
  const MmOptions& options_;
  const at::Tensor& a_;
};

// What a Backend's plan() and run() are.
template <typename Backend>
auto plan_of_either_order(const Problem& problem, const MmOptions& options, const at::Tensor& a) {
  using Plan = TreePlan<typename Backend::Chain>;
  const int64_t leaf = leaf_of(options);
  const SumTree tree = leaf == 0 ? SumTree() : tree_of(problem, leaf);
  if (tree.leaf == 0) return Plan{Backend::plan_chain(problem, options, a)};
  // What a leaf is refused for, the product is refused for before it begins.
  const Problem first = part_along_k(problem, 0, leaf_at(tree, problem.k, 0).size);
  return Plan{Backend::plan_chain(first, options, a), tree, &options};
}

template <typename Backend>
void run_either_order(const Problem& problem, const TreePlan<typename Backend::Chain>& plan,
                      const at::Tensor& a) {
  if (plan.tree.leaf == 0)
    Backend::run_chain(problem, plan.chain, a);
  else
    Tree<Backend>::run(problem, plan.tree, *plan.options, a);
}

}  // namespace tiled
