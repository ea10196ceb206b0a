// The CPU's matrix products: plain data in, no tensor library.
#pragma once

#include <cstdint>
#include <vector>

#include "core/problem.h"
#include "cpu/kernels.h"

namespace tiled::cpu {

// Calls body(state, begin, end) for parts that make up [0, count), on up to `threads` threads, and
// returns when all are done. A body brings its own mode of floating-point numbers (float_mode.h).
using Body = void (*)(void* state, int64_t begin, int64_t end);
struct ParallelFor {
  void (*run)(int64_t count, Body body, void* state);
  int threads;
};

// Three loops: the reference, and the lesson.
void mm_naive(const Problem& problem, const ParallelFor& parallel);

// The default: blocked for the caches, a tile of vectors in registers. The same bits as mm_naive.
void mm_blocked(const Problem& problem, const ParallelFor& parallel);

// Whether it does three loops itself, since they are done before its choices would be made.
bool is_tiny(const Problem& problem, const Level& level);

// The instruction level in use: "base", "avx2", "avx512", "avx512_bf16" or "amx". The highest that
// this CPU has, or the one that the environment variable TILED_MM_CPU_LEVEL names. Throws
// std::invalid_argument, as the products above do, if that is none or one that this CPU does not
// have.
const Level& chosen_level();

// For tests: every level that this CPU has, lowest first, and the products at a given one.
const std::vector<const Level*>& available_levels();
void mm_naive(const Problem& problem, const ParallelFor& parallel, const Level& level);
void mm_blocked(const Problem& problem, const ParallelFor& parallel, const Level& level);

}  // namespace tiled::cpu
