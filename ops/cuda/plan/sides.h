// The problem as the rungs see it that treat A and B alike: each operand is rows of m or n, by k.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include "core/problem.h"

namespace tiled {

// The product of two counts, or the largest int64 if that is less.
inline int64_t saturating_product(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

// Their sum, likewise.
inline int64_t saturating_sum(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

// Blocks of a size that cover another; no size overflows, unlike (size + block - 1) / block.
constexpr int64_t blocks_over(int64_t size, int64_t block) {
  return size / block + (size % block != 0);
}

// One operand: rows of m or n, by k.
struct Side {
  const void* data;
  int64_t rows, k;                             // elements
  int64_t row_stride, k_stride, batch_stride;  // elements
  int32_t alignment;                           // bytes, as Operand's
  bool is_shared;                              // its rows are shared out among groups
  int64_t groups_of_k;                         // that share out K, or 0
};

inline int64_t groups_of_k(const Problem& p) { return p.groups.shared == Shared::K ? p.batch : 0; }

inline Side side_a(const Problem& p) {
  const bool is_shared = p.groups.shared == Shared::M;
  const auto& [data, row, column, batch, alignment] = p.a;
  return {data, p.m, p.k, row, column, batch, alignment, is_shared, groups_of_k(p)};
}
inline Side side_b(const Problem& p) {
  const bool is_shared = p.groups.shared == Shared::N;
  const auto& [data, row, column, batch, alignment] = p.b;
  return {data, p.n, p.k, column, row, batch, alignment, is_shared, groups_of_k(p)};
}

// Whether the kernels' counters of groups, of 31 bits, have room for these.
inline bool groups_fit(const Problem& problem) {
  constexpr int64_t MOST = std::numeric_limits<int32_t>::max();
  switch (problem.groups.shared) {
    case Shared::Nothing: return true;
    case Shared::M: return problem.batch < MOST && problem.m <= MOST;
    case Shared::N: return problem.batch < MOST && problem.n <= MOST;
    case Shared::K: return problem.batch < MOST && problem.k <= MOST;
  }
  return false;
}

// Whether the rows of TMA's boxes are contiguous along m or n; else along k.
inline bool is_mn_major(const Side& side) {
  if (side.k > 1 && side.k_stride == 1) return false;
  if (side.rows > 1 && side.row_stride == 1) return true;
  return side.rows == 1 && side.k > 1;
}

// Whether TMA can read the operand where it is: neighbours along a row, all else a multiple of 16
// bytes apart.
inline bool is_mappable(const Side& side) {
  const bool mn_major = is_mn_major(side);
  const int64_t along = mn_major ? side.rows : side.k;
  const int64_t along_stride = mn_major ? side.row_stride : side.k_stride;
  const int64_t across = mn_major ? side.k : side.rows;
  const int64_t across_stride = mn_major ? side.k_stride : side.row_stride;
  return side.alignment == 16 && (along <= 1 || along_stride == 1) &&
         (across <= 1 || across_stride > 1);
}

// P and Q, and C by them. The stride of a dimension of size 1 is chosen so that one stride is 1
// wherever that can be.
struct Sides {
  Side p, q;
  int64_t c_p, c_q;  // elements
};
inline Sides sides_of(const Problem& problem, bool swap_ab) {
  Sides s{side_a(problem), side_b(problem), problem.c.row_stride, problem.c.col_stride};
  if (swap_ab) {
    std::swap(s.p, s.q);
    std::swap(s.c_p, s.c_q);
  }
  if (s.q.rows == 1 && s.c_p != 1) s.c_q = 1;
  if (s.p.rows == 1 && s.c_q != 1) s.c_p = 1;
  return s;
}

}  // namespace tiled
