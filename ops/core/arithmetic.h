// Which GPU computes how: by its generation's kernels. The one place that says it; a build that
// leaves kernels out has fewer of them.
#pragma once

#include <string_view>

#include "core/problem.h"

namespace tiled {

// The kernels that not every GPU has, as far as they decide its arithmetic.
struct Kernels {
  bool hopper;  // wgmma, and what else is built for compute capability 9.0 alone
  bool mma;     // mma.sync: rung async_mma, and a kernel of fp16x3
};

// Whether they compute so. Chains need no kernel of theirs: every GPU has them.
constexpr bool computes(Kernels kernels, Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::Fma: return true;
    case Arithmetic::Cpu16: return false;
    case Arithmetic::Tensor:
    case Arithmetic::Tf32:
    case Arithmetic::Fp16x3: return kernels.hopper || kernels.mma;
  }
  return false;
}

struct Generation {
  int capability;  // its first
  std::string_view name;
  Kernels kernels;
};

constexpr Generation GENERATIONS[] = {
#define GENERATION(capability, name, hopper, mma) {capability, name, {hopper, mma}},
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
