// The two kernels of the benchmark's own operators. No torch header here, so that nvcc sees none.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tiled_bench {

void launch_empty(cudaStream_t stream);

// Runs `steps` rounds of independent fp32 multiply-adds in each of `threads` threads (rounded down
// to whole blocks), each of which writes its sum to sink[threads]. Returns the operations, a
// multiply-add counted as two.
int64_t launch_fp32_peak(float* sink, int64_t threads, int64_t steps, cudaStream_t stream);

}  // namespace tiled_bench
