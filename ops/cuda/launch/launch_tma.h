// The launches of the rungs whose operands come by TMA: tensor maps, shared memory, clusters.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/plan/plan.h"

namespace tiled {

// The kernel of a plan with tma_wgmma, warp_specialized, hopper or fp16x3.
const void* tma_kernel(const Problem& problem, const Plan& plan);

// tma_wgmma and warp_specialized.
cudaError_t launch_wgmma(const Problem& problem, const Plan& plan, cudaStream_t stream);

// hopper, with what comes before and after it. `workspace`: hopper_workspace bytes.
cudaError_t launch_hopper(const Problem& problem, const HopperPlan& plan, void* workspace,
                          cudaStream_t stream);

// fp16x3. `workspace`: fp16x3_layout bytes.
cudaError_t launch_fp16x3(const Problem& problem, const Plan& plan, void* workspace,
                          cudaStream_t stream);

}  // namespace tiled
