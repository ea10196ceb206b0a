// The second order of sums (docs/contract.md): a tree over K, in which K alone takes part, as in
// segments.h. With `least` the larger of leaf and unit:
//
//     tree(K) = tree(half) + tree(K - half)  while K >= 2 least,  half = unit * ceil(K / (2 unit))
//     tree(K) = one chain                    below
//
// A leaf is a product of its own, from its first k on, in the arithmetic of all others: one chain,
// since it is shorter than DEEP_K. Leaves and inner nodes are values of the type that sums have
// (fp32, fp64, complex); the root goes through the epilogue and is rounded once. Integers are exact
// in any order and have no tree.
//
//     K = 6000, leaf 1024, unit 16         6000
//                                   3008         2992
//                                1504  1504   1504  1488     four leaves, their sizes in k
//
// A process that has an equal part K / t of K, t a power of two, finds the same leaves by itself
// where K / t is a multiple of the unit and at least `least`, and t roots added by the same tree
// are the tree of all K.
#pragma once

#include <cstdint>

#include "core/problem.h"

namespace tiled {

struct SumTree {
  int64_t leaf = 0;   // k, a power of two; 0: one chain, as segments.h has it
  int64_t unit = 16;  // k: a node's halves meet at a multiple of it, counted from the node's begin

  constexpr int64_t least() const { return leaf > unit ? leaf : unit; }
  constexpr bool splits(int64_t k) const { return leaf > 0 && k >= 2 * least(); }
  constexpr int64_t first_half(int64_t k) const { return (k + 2 * unit - 1) / (2 * unit) * unit; }
};

constexpr int64_t LEAST_LEAF = 16, DEFAULT_LEAF = 1024, MOST_LEAF = 16384;
static_assert(2 * MOST_LEAF <= DEEP_K, "a leaf is one chain");

// The parts that a leaf of this arithmetic is made of: steps of tensor cores, fp16x3's fresh
// accumulators, blocks of a scaled product.
constexpr int64_t tree_unit(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::Fp16x3: return 64;
    case Arithmetic::Fp8: return SCALE_BLOCK;
    default: return 16;
  }
}

// The tree of a product; of leaf 0 where its K is one leaf.
constexpr SumTree tree_of(const Problem& problem, int64_t leaf) {
  const SumTree tree = {leaf, tree_unit(problem.arithmetic)};
  return !is_integer(problem.dtype) && tree.splits(problem.k) ? tree : SumTree();
}

// A part of K: a leaf, or a half of a node.
struct TreePart {
  int64_t begin, size;  // k
  int32_t additions;    // of the two sums that were left last, each with their sum, behind this one
};

// The leaf of a K that begins at `begin`.
constexpr TreePart leaf_at(const SumTree& tree, int64_t k, int64_t begin) {
  TreePart leaf = {begin, k, 0};
  for (int64_t node = 0; tree.splits(leaf.size);) {
    const int64_t half = tree.first_half(leaf.size);
    if (begin < node + half) {
      leaf.size = half, leaf.additions = 0;
    } else {
      node += half, leaf.size -= half, ++leaf.additions;
    }
  }
  return leaf;
}

constexpr int64_t leaf_count(const SumTree& tree, int64_t k) {
  int64_t count = 0;
  for (int64_t begin = 0; begin < k; begin += leaf_at(tree, k, begin).size) ++count;
  return count;
}

// The chains that a product's sum consists of: the leaves of its tree, or segments.
constexpr int64_t chain_count(const Problem& problem) {
  if (problem.leaf == 0) return segment_count(problem);
  return leaf_count({problem.leaf, tree_unit(problem.arithmetic)}, problem.k);
}

// Where the leaves of a tree begin, in k, and behind them its end: an argument of kernels whose
// blocks have leaves.
constexpr int MOST_LEAVES = 256;
struct LeafTable {
  int32_t count;
  int32_t begins[MOST_LEAVES + 1];
};

// Sums of a problem's tree that wait where a kernel keeps `kept` of them elsewhere: the most at
// once, and all of them.
struct WaitingCounts {
  int64_t most, all;
};
constexpr WaitingCounts waiting_beyond(int64_t kept, const Problem& problem) {
  const SumTree tree = {problem.leaf, tree_unit(problem.arithmetic)};
  WaitingCounts counts = {0, 0};
  int64_t waiting = 0;
  for (int64_t begin = 0; problem.leaf > 0 && begin < problem.k;) {
    const TreePart leaf = leaf_at(tree, problem.k, begin);
    begin += leaf.size;
    waiting += 1 - leaf.additions;
    if (begin == problem.k || waiting <= kept) continue;
    ++counts.all;
    if (waiting - kept > counts.most) counts.most = waiting - kept;
  }
  return counts;
}

// The most sums that one pass adds up; more of them are added half by half. A node that splits has
// neighbours of its depth that do or nearly do, so that the tree of 2^10 leaves is at most 11 deep:
// at every depth a first half waits, and a leaf.
constexpr int64_t MOST_PARTS = 1024;
constexpr int MOST_WAITING = 12;

// One pass: C's elements, each the tree of its parts' sums, finished and rounded once. Plain data,
// which a kernel is given by value.
struct TreePass {
  Problem problem;  // C, and what comes behind the sum; its operands are not read
  const void* sums;
  int64_t part_stride, entry_stride, pitch;  // sums are [parts][batch][m][pitch], in elements
  int32_t parts;
  uint8_t additions[MOST_PARTS];  // [parts]
};

}  // namespace tiled
