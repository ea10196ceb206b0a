// The pieces of K that a unit adds up, a chain each: segments (core/segments.h), the leaves of a
// tree (core/sum_tree.h), which begin anywhere, or all of it, of which scaled products have one
// total. A loop over them:
//
//     for (Pieces<TREES, WHOLE, BLOCK_K> pieces(args); pieces.next(unit.pieces);) {
//       const Piece piece = pieces.of(unit);
#pragma once

#include "core/sum_tree.h"
#include "cuda/parts/hopper_schedule.cuh"

namespace tiled {

struct Piece {
  int first, last;  // whole steps of BLOCK_K
  int rest;         // elements of one more step, of which the others are the next piece's
  int begin;        // of K where step 0 is, elements
  __device__ __forceinline__ int end() const { return last + (rest != 0); }  // of all its steps
  __device__ __forceinline__ int steps() const { return end() - first; }
};

// TREES: they are leaves. WHOLE: there is one.
template <bool TREES, bool WHOLE, int BLOCK_K>
class Pieces {
 public:
  int index = -1;

  __device__ __forceinline__ explicit Pieces(const HopperArguments& args) : args_(args) {}

  // Whether there is another one; `segments` is how many a unit has.
  __device__ __forceinline__ bool next(int segments) {
    ++index;
    if constexpr (WHOLE) return index == 0;
    if constexpr (!TREES) return index < segments;
    begin_ += size_;
    if (begin_ == args_.k) return false;
    const SumTree tree = {args_.leaf, tree_unit(Arithmetic::Tensor)};
    const TreePart leaf = leaf_at(tree, args_.k, begin_);
    size_ = static_cast<int>(leaf.size), additions_ = leaf.additions;
    return true;
  }

  // A unit's; those of a pair of units differ in segments alone.
  __device__ __forceinline__ Piece of(const Unit& unit) const {
    if constexpr (TREES) return {0, size_ / BLOCK_K, size_ % BLOCK_K, begin_};
    if constexpr (WHOLE) return {unit.first, unit.last, 0, 0};
    return {unit.begin(index), unit.end(index), 0, 0};
  }

  // Of a tree's leaf: how many of the sums that wait it is added to, and whether the root is done.
  __device__ __forceinline__ int additions() const { return additions_; }
  __device__ __forceinline__ bool is_last() const { return begin_ + size_ == args_.k; }

 private:
  const HopperArguments& args_;
  int begin_ = 0, size_ = 0, additions_ = 0;  // of a leaf, elements
};

}  // namespace tiled
