// Which GPU computes how: by its generation's kernels. The one place that says it; a build that
// leaves kernels out has fewer of them.
#pragma once

#include <string_view>

#include "core/problem.h"

namespace tiled {

// The products by mma.sync: rung async_mma, and a kernel of fp16x3.
enum class Mma : int8_t {
  None,
  Fp16By8,  // 7.5's: of fp16 alone, whose steps are 8 of k where all others are 16
  All,
};

// The kernels that not every GPU has, as far as they decide its arithmetic.
struct Kernels {
  bool hopper;  // wgmma, and what else is built for compute capability 9.0 alone
  Mma mma;
};

// Whether they compute this dtype so. Chains need no kernel of theirs: every GPU has them.
constexpr bool computes(Kernels kernels, Arithmetic arithmetic, DType dtype) {
  const bool all = kernels.hopper || kernels.mma == Mma::All;
  switch (arithmetic) {
    case Arithmetic::Fma: return true;
    case Arithmetic::Cpu16: return false;
    case Arithmetic::Tensor: return all || (kernels.mma == Mma::Fp16By8 && dtype == DType::Float16);
    case Arithmetic::Tf32:
    case Arithmetic::Fp16x3: return all;
    case Arithmetic::Fp8: return kernels.hopper && is_fp8(dtype);
  }
  return false;
}

struct Generation {
  int capability;  // its first
  std::string_view name;
  Kernels kernels;
};

constexpr Generation GENERATIONS[] = {
#define GENERATION(capability, name, hopper, mma) {capability, name, {hopper, Mma::mma}},
#include "core/generations.inc"
};

// That of a compute capability; older ones than the table's are as its first.
constexpr const Generation& generation_of(int capability) {
  const Generation* found = &GENERATIONS[0];
  for (const Generation& generation : GENERATIONS)
    if (generation.capability <= capability) found = &generation;
  return *found;
}

}  // namespace tiled
