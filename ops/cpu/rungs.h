// The rungs of the ladder that run on the CPU: which there are, and a product by one of them.
#pragma once

#include <vector>

#include "core/algo.h"
#include "core/problem.h"
#include "cpu/blocked.h"
#include "cpu/scaled.h"

namespace tiled::cpu {

inline const std::vector<Algo>& rungs() {
  static const std::vector<Algo> all = {Algo::Naive, Algo::Blocked};
  return all;
}
constexpr Algo DEFAULT_RUNG = Algo::Blocked;

// Whether a rung is three loops, whose threads share out rows of C; else it is blocked.
constexpr bool is_three_loops(Algo rung) { return rung == Algo::Naive; }

// Scaled products have one kernel, whatever the rung.
inline void run(const Problem& problem, Algo rung, const ParallelFor& parallel) {
  if (is_scaled(problem))
    mm_scaled(problem, parallel);
  else if (is_three_loops(rung))
    mm_naive(problem, parallel);
  else
    mm_blocked(problem, parallel);
}

}  // namespace tiled::cpu
