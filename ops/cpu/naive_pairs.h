// bf16 products by pairs of neighbours in k, as their definition has them: the reference for levels
// whose instructions multiply pairs (words.h).
#pragma once

#include "core/segments.h"
#include "cpu/words.h"

namespace tiled::cpu {
namespace {

// One segment of one element of C, by the instruction that the tiles use.
using DotChain = float (*)(const uint16_t* a, int64_t a_stride, const uint16_t* b, int64_t b_stride,
                           int64_t k);

// The three loops of naive.h around it.
template <DotChain CHAIN>
void naive_dots(const NaiveProblem& problem, int64_t begin, int64_t end) {
  const Strides a = problem.a_strides, b = problem.b_strides, c = problem.c_strides;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t entry = row / problem.m, i = row % problem.m;
    for (int64_t j = 0; j < problem.n; ++j) {
      const auto* x = static_cast<const uint16_t*>(problem.a) + entry * a.batch + i * a.row;
      const auto* y = static_cast<const uint16_t*>(problem.b) + entry * b.batch + j * b.col;
      float total = 0;
      for (int64_t segment = 0; segment < segment_count(problem.k); ++segment) {
        const int64_t k = segment_begin(segment);
        total +=
            CHAIN(x + k * a.col, a.col, y + k * b.row, b.row, segment_end(segment, problem.k) - k);
      }
      const int64_t at = entry * c.batch + i * c.row + j * c.col;
      if (problem.unrounded)
        static_cast<float*>(problem.c)[at] = total;
      else
        static_cast<uint16_t*>(problem.c)[at] = BFloat16::narrow(total);
    }
  }
}

}  // namespace
}  // namespace tiled::cpu
