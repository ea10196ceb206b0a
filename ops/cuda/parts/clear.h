// Words that a kernel of the plan wants to find cleared.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/plan/clear.h"

namespace tiled {

// `step`: clear_words_step()'s.
cudaError_t launch_clear_words(unsigned long long* words, int count, const Step& step,
                               cudaStream_t stream);

}  // namespace tiled
