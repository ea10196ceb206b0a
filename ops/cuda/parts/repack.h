// The two helpers of rung hopper: an operand that TMA cannot read is copied to where it can, and
// the sums of segments that were shared out are added. register_tile uses the first.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/plan/hopper_plan.h"

namespace tiled {

struct Copy {
  Side from, to;  // to: copied(from) (repack_layout.h)
};

// None, one or two.
cudaError_t launch_copies(const Copy* copies, int count, const Problem& problem,
                          cudaStream_t stream);

// C = round(((0 + sums[0]) + sums[1]) + ...), `sums` as [segments][batch][rows][pitch], whose rows
// lie along n, or along m.
cudaError_t launch_sum_segments(const Problem& problem, const float* sums, int64_t segments,
                                bool along_m, int64_t pitch, int64_t entry, cudaStream_t stream);

}  // namespace tiled
