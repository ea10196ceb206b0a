// Split-K: where the sums of segments are kept, what that takes, and the kernel that adds them.
// Every rung that has split-K plans by this:
//
//     may_split_k()  ->  add_with_sums()  ->  the product's kernel writes problem_of_sums()
//                                                ->  Work::Sums
#pragma once

#include <algorithm>

#include "core/sum_tree.h"
#include "cuda/plan/plan.h"

namespace tiled {

// [segments][batch][rows][pitch] of accumulators in the order of C's elements: rows are contiguous
// along n, or m.
struct SumsLayout {
  bool along_m;
  int64_t segments;  // none for K = 0: every element is +0
  int64_t rows, columns;
  int64_t pitch, entry;  // elements: of a row, of a batch entry
  int64_t element;       // bytes

  int64_t bytes(int64_t batch) const {
    return saturating_product(saturating_product(entry, batch),
                              saturating_product(segments, element));
  }
};

// With as many segments as K has, or leaves.
inline SumsLayout sums_layout(const Problem& problem) {
  SumsLayout l{};
  l.along_m = problem.c.row_stride == 1 && problem.c.col_stride != 1;
  l.segments = chain_count(problem);
  l.rows = l.along_m ? problem.n : problem.m, l.columns = l.along_m ? problem.m : problem.n;
  l.pitch = saturating_sum(l.columns, 3) / 4 * 4;
  l.entry = saturating_product(l.rows, l.pitch);
  l.element = accumulator_bytes(problem.dtype);
  return l;
}

// Whether K's segments, or leaves, may go to different blocks. Their sums may take half of what the
// operands do: a C beyond that has tiles enough, and the pass over its sums would cost more than it
// gains. How many segments a group has is known on the device alone.
inline bool may_split_k(const Problem& problem) {
  constexpr int64_t LITTLE = int64_t{1} << 20;  // bytes that nobody minds
  if (chain_count(problem) < 2 || problem.m == 0 || problem.n == 0) return false;
  if (is_grouped(problem)) return false;
  const int64_t operands =
      saturating_product(saturating_product(saturating_sum(problem.m, problem.n), problem.k),
                         saturating_product(problem.batch, size_of(problem.dtype)));
  return sums_layout(problem).bytes(problem.batch) <= std::max(LITTLE, operands / 2);
}

// Whether blocks may share out the leaves of the problem's tree; so may they where there is none.
inline bool may_share_leaves(const Problem& problem) {
  return problem.leaf == 0 || (may_split_k(problem) && chain_count(problem) <= MOST_LEAVES);
}

// The dtype of sums that no epilogue has come near.
constexpr DType accumulator_of(DType dtype) {
  switch (dtype) {
    case DType::Float16:
    case DType::BFloat16: return DType::Float32;
    case DType::Int8:
    case DType::UInt8:
    case DType::Int16: return DType::Int32;
    default: return dtype;
  }
}

// The same product as far as its kernel is concerned: C is the workspace's sums, where the segments
// of an entry stand apart as entries of a batch do: entry e of segment s is number s * batch + e.
inline Problem problem_of_sums(const Problem& problem, const SumsLayout& layout, void* sums) {
  Problem of_sums = problem;
  of_sums.c = {sums, layout.along_m ? 1 : layout.pitch, layout.along_m ? layout.pitch : 1,
               layout.entry, 16};
  of_sums.epilogue = {};
  of_sums.epilogue.out_dtype = accumulator_of(problem.dtype);
  return of_sums;
}

constexpr int SUMS_THREADS = 256;
constexpr int SUMS_VECTOR = 4;  // elements of a thread, neighbours in a row

// Step::key of Work::Sums: the product's kernel computes C's transpose, and the sums are its.
constexpr int8_t TRANSPOSED = 1;

// The kernel that adds the segments' sums; for K = 0 all elements are +0.
inline void add_sums(Plan& plan, const Problem& problem, int8_t key = 0) {
  constexpr int64_t MOST_BLOCKS = 65536;  // of an entry; they go on by this stride
  const SumsLayout layout = sums_layout(problem);
  Step step{};
  step.work = Work::Sums, step.key = key;
  step.threads_x = SUMS_THREADS, step.threads_y = 1;
  step.grid_x =
      std::min(blocks_over(layout.rows * (layout.pitch / SUMS_VECTOR), SUMS_THREADS), MOST_BLOCKS);
  step.grid_y = static_cast<int32_t>(std::min(problem.batch, MAX_GRID_Y));
  plan.add(step);
}

// A product that leaves its segments' sums, and that kernel.
inline void add_with_sums(Plan& plan, const Step& product, const Problem& problem, int8_t key = 0) {
  plan.add_with_totals(product, sums_layout(problem).bytes(problem.batch));
  add_sums(plan, problem, key);
}

}  // namespace tiled
