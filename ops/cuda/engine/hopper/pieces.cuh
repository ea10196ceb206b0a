// The pieces of K that a unit adds up, a chain each: segments (core/segments.h), the leaves of a
// tree (core/sum_tree.h), which begin anywhere, or all of it, of which scaled products have one
// total. A loop over them:
//
//     for (Pieces pieces(args, unit); pieces.next(unit);) {
//       const Piece piece = pieces.of(unit);
#pragma once

#include "cuda/parts/schedule/hopper_schedule.cuh"

namespace tiled {

struct Piece {
  int first, last;  // whole steps of BLOCK_K
  int rest;         // elements of one more step, of which the others are the next piece's
  int begin;        // of K where step 0 is, elements
  __device__ __forceinline__ int end() const { return last + (rest != 0); }  // of all its steps
  __device__ __forceinline__ int steps() const { return end() - first; }
};

// WHOLE: there is one.
template <bool WHOLE>
class Segments {
 public:
  int index = -1;

  __device__ __forceinline__ Segments(const HopperArguments&, const Unit&) {}

  // Whether the unit has another one.
  __device__ __forceinline__ bool next(const Unit& unit) {
    ++index;
    return index < (WHOLE ? 1 : unit.pieces);
  }

  // A unit's; those of a pair of units differ in segments alone.
  __device__ __forceinline__ Piece of(const Unit& unit) const {
    if constexpr (WHOLE) return {unit.first, unit.last, 0, 0};
    return {unit.begin(index), unit.end(index), 0, 0};
  }
};

// A tree's, all of them or, where they are shared out, the unit's own.
class Leaves {
 public:
  int index;

  __device__ __forceinline__ Leaves(const TreeArguments& args, const Unit& unit)
      : index((args.segments != 1 ? unit.segment : 0) - 1),
        args_(args),
        end_(args.segments != 1 ? unit.segment + 1 : args.leaves.count) {}

  __device__ __forceinline__ bool next(const Unit&) { return ++index < end_; }

  __device__ __forceinline__ Piece of(const Unit&) const {
    constexpr int BLOCK_K = 64;  // of elements of 16 bits
    const int32_t* const begins = args_.leaves.begins + index;
    const int begin = begins[0], size = begins[1] - begin;
    return {0, size / BLOCK_K, size % BLOCK_K, begin};
  }

  // How many of the sums that wait the leaf is added to, and whether the root is done.
  __device__ __forceinline__ int additions() const { return args_.additions[index]; }
  __device__ __forceinline__ bool is_last() const { return index == args_.leaves.count - 1; }

 private:
  const TreeArguments& args_;
  const int end_;
};

}  // namespace tiled
