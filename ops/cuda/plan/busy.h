// How long a step of a candidate (candidate.h) keeps the units of a chip busy.
#pragma once

#include "cuda/plan/candidate.h"
#include "cuda/plan/chip_scale.h"

namespace tiled {

inline bool is_of_fp64(const Problem& problem) {
  return problem.dtype == DType::Float64 || problem.dtype == DType::Complex128;
}

// Cycles, where one of this chip's multiprocessors may do fewer multiply-adds in each than an
// H200's.
inline double busy_of(const Candidate& candidate, const Problem& problem,
                      const DeviceInfo& device) {
  if (!is_of_fp64(problem)) return candidate.busy;
  const ChipScale scale = scale_of(device);
  return candidate.busy / (candidate.tensor_cores ? scale.fp64_tensor : scale.fp64);
}

}  // namespace tiled
