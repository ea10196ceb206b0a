// The kernels of rung tall.
#pragma once

#include "cuda/engine/tall/way.h"
#include "cuda/parts/launch/launch.h"

namespace tiled {

struct TallKernel {
  int tile;      // counted from the first of its kind
  bool along_m;  // the long operand is contiguous along m
  bool plain;    // lines are aligned, K is in the panel, and the sums go to C as they are
};

Kernel<TallArguments> tall_bf16(const TallKernel& kernel);
Kernel<TallArguments> tall_fp16(const TallKernel& kernel);
Kernel<TallArguments> tall_fp32(const TallKernel& kernel);

}  // namespace tiled
